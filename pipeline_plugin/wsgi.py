"""A plugin as a WSGI application (PEP 3333)."""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, Callable

from pipeline_plugin.web import MAX_BODY, TOO_LARGE, Reply, Request

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def application(respond: Callable[[Request], Reply]) -> Application:
    """The application that answers by `respond`."""

    def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        reply = _reply(environ, respond)
        status = f"{reply.status} {HTTPStatus(reply.status).phrase}"
        start_response(status, list(reply.all_headers().items()))
        return [b"" if environ["REQUEST_METHOD"] == "HEAD" else reply.body]

    return app


def _reply(environ: dict[str, Any], respond: Callable[[Request], Reply]) -> Reply:
    text = environ.get("CONTENT_LENGTH") or "0"
    if not text.isdigit():
        return Reply.error(400, "Content-Length is not a number")
    if int(text) > MAX_BODY:
        return TOO_LARGE
    body = environ["wsgi.input"].read(int(text))
    headers = {name[5:].replace("_", "-").lower(): value for name, value in environ.items() if name.startswith("HTTP_")}
    path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
    return respond(Request(environ["REQUEST_METHOD"], path, headers, body))
