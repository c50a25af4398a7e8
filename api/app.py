"""The Flask application."""

from __future__ import annotations

import ipaddress
import re
import uuid
from contextlib import suppress
from urllib.parse import urlsplit

import structlog
from flask import Flask, Response, g, request
from werkzeug.middleware.proxy_fix import ProxyFix

from api import envelope, openapi, resources
from api.blueprint import LIMIT
from api.console import pages
from api.failure_limit import FailureLimit
from api.resources import features, flows, operations
from api.resources import tokens as token_routes
from api.server.request_reader import READ_BYTES
from pipeline_core.auth import tokens
from pipeline_core.common import log, tracing
from pipeline_core.database import transaction
from pipeline_core.errors import Forbidden, Unavailable
from pipeline_core.settings import settings
from pipeline_core.validation.texts import shown
from workers import publish

REQUEST_ID = "X-Request-ID"
_USABLE_ID = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")


class Application(Flask):
    """Flask, whose automatic answer to OPTIONS has the envelope of all other responses."""

    def make_default_options_response(self) -> Response:
        response = envelope.success()
        response.headers["Allow"] = super().make_default_options_response().headers["Allow"]
        return response


def create_app() -> Flask:
    """A new application: it reads the settings, and opens no connection before the first request."""
    log.configure(settings())
    app = Application("pipeline", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = READ_BYTES
    # Every path works with and without a trailing slash, and nothing is ever redirected.
    app.url_map.strict_slashes = False
    app.url_map.merge_slashes = False
    app.url_map.converters["token"] = token_routes.TokenIDConverter
    app.url_map.converters["flow"] = flows.FlowNameConverter
    app.url_map.converters["feature"] = features.FeatureNameConverter
    app.extensions[LIMIT] = FailureLimit(settings().failed_logins)
    app.before_request(_begin)
    app.after_request(_end)
    app.register_error_handler(Exception, envelope.failure)
    api = openapi.make_api(app, operations.VERSION)
    for blueprint in resources.all_blueprints():
        api.register_blueprint(blueprint)
    app.register_blueprint(pages.blueprint)
    if proxies := settings().trusted_proxies:
        app.wsgi_app = ProxyFix(  # type: ignore[method-assign]
            app.wsgi_app, x_for=proxies, x_proto=proxies, x_host=proxies, x_prefix=proxies
        )
    # Wake-ups of this process's transactions are published after each commit.
    publish.install()
    return app


def check_startup() -> None:
    """Raises ConfigurationError when this process must not serve: no admin password is set, or everybody knows it.

    While the database is unavailable the check is skipped: no request could be served either.
    """
    with suppress(Unavailable), transaction() as session:
        tokens.check_startup(session)


def addresses_development_run(host: str, public_url: str) -> bool:
    """Whether a `Host` means this machine: a loopback address, `localhost`, a name below it, or the host of `public_url`.

    A web page can have its own name resolve to 127.0.0.1, and then sends requests here, but with that name.
    """
    name = urlsplit(f"//{host}").hostname or ""
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        own = urlsplit(public_url).hostname if public_url else None
        return name == "localhost" or name.endswith(".localhost") or (own is not None and name == own)


def _begin() -> None:
    """Use the client's request ID, or make one: it is in every log line of the request."""
    sent = request.headers.get(REQUEST_ID, "")
    g.request_id = sent if _USABLE_ID.fullmatch(sent) else uuid.uuid4().hex
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(request_id=g.request_id)
    g.span = _span()
    tracing.enter(g.span)
    if settings().development and not addresses_development_run(request.host, settings().public_url):
        raise Forbidden(
            "A development run answers only requests to a loopback address, localhost or the host of PIPELINE_PUBLIC_URL, "
            f"and this one is to {shown(request.host)}: its well-known password would be open to any web page."
        )


def _span() -> tracing.Span:
    """The span of an API request, in the context that its client sends, if it does."""
    context = tracing.parse(request.headers.get(tracing.HEADER, ""))
    if not request.path.startswith("/v1"):
        return tracing.NoSpan(context)
    route = request.url_rule.rule if request.url_rule else request.path
    return tracing.root(f"{request.method} {route}", context, tracing.Kind.SERVER, request_id=g.request_id)


def _end(response: Response) -> Response:
    """Set the headers that every response has, and end the request's span."""
    g.span.set("http.response.status_code", response.status_code)
    g.span.end()
    response.headers[REQUEST_ID] = g.request_id
    response.headers["X-Content-Type-Options"] = "nosniff"
    if request.path.startswith("/v1"):
        response.headers["Cache-Control"] = "no-store"
    return response
