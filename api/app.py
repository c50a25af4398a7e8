"""The Flask application."""

from __future__ import annotations

from contextlib import suppress

from flask import Flask, Response, request
from werkzeug.middleware.proxy_fix import ProxyFix

from api import bodies, envelope, openapi, request_ids
from api.auth import FailureLimit
from api.blueprint import LIMIT
from pipeline_core.auth import tokens
from pipeline_core.common import log
from pipeline_core.database import transaction
from pipeline_core.errors import Unavailable
from pipeline_core.settings import settings
from workers import publish


class Application(Flask):
    """Flask, with what it answers by itself in the form of all other answers."""

    def make_default_options_response(self) -> Response:
        response = envelope.success()
        response.headers["Allow"] = super().make_default_options_response().headers["Allow"]
        return response


def create_app() -> Flask:
    """A new application: it reads the settings, and opens no connection before the first request."""
    from api import resources
    from api.resources import flows, operations
    from api.resources import tokens as token_routes

    log.configure(settings())
    app = Application("pipeline", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = bodies.READ_BYTES
    # Every path works with and without a trailing slash, and nothing is ever redirected.
    app.url_map.strict_slashes = False
    app.url_map.merge_slashes = False
    app.url_map.converters["token"] = token_routes.TokenID
    app.url_map.converters["flow"] = flows.FlowName
    app.extensions[LIMIT] = FailureLimit(settings().failed_logins)
    request_ids.install(app)
    app.register_error_handler(Exception, envelope.failure)
    app.after_request(_harden)
    api = openapi.make_api(app, operations.VERSION)
    for blueprint in resources.all_blueprints():
        api.register_blueprint(blueprint)
    if proxies := settings().trusted_proxies:
        app.wsgi_app = ProxyFix(  # type: ignore[method-assign]
            app.wsgi_app, x_for=proxies, x_proto=proxies, x_host=proxies, x_prefix=proxies
        )
    # What this process decides, workers learn of at once.
    publish.install()
    return app


def check_startup() -> None:
    """Raises ConfigurationError when this process must not serve: nobody could log in as admin, or anybody could.

    While the database is away there is nothing to check, and nothing that could be served either.
    """
    with suppress(Unavailable), transaction() as session:
        tokens.check_startup(session)


def _harden(response: Response) -> Response:
    response.headers["X-Content-Type-Options"] = "nosniff"
    if request.path.startswith("/v1"):
        response.headers["Cache-Control"] = "no-store"
    return response
