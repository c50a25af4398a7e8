"""A plugin as a WSGI application, by the standard library's own validator."""

from __future__ import annotations

import io
from typing import Any
from wsgiref.util import setup_testing_defaults
from wsgiref.validate import validator

from pipeline_plugin import web, wsgi
from pipeline_plugin.web import Reply, Request


def call(body: bytes, **environ: str) -> tuple[str, dict[str, str], bytes, list[Request]]:
    seen: list[Request] = []

    def respond(request: Request) -> Reply:
        seen.append(request)
        return Reply(200, b"answer", headers={"X-Own": "1"})

    given: dict[str, Any] = {
        "REQUEST_METHOD": "POST",
        "CONTENT_LENGTH": str(len(body)),
        "SCRIPT_NAME": "",
        "PATH_INFO": "/",
        "QUERY_STRING": "",
        **environ,
    }
    setup_testing_defaults(given)
    given["wsgi.input"] = io.BytesIO(body)
    started: list[Any] = []

    def start(status: str, headers: list[tuple[str, str]], *_: Any) -> Any:
        started[:] = [status, dict(headers)]
        return lambda _: None

    answer = validator(wsgi.application(respond))(given, start)
    text = b"".join(answer)
    answer.close()  # type: ignore[attr-defined]
    return started[0], started[1], text, seen


def test_a_request_is_answered() -> None:
    status, headers, text, (request,) = call(b"{}", HTTP_IDEMPOTENCY_KEY="k", PATH_INFO="/gate")
    assert (status, text, headers["X-Own"], headers["Content-Length"]) == ("200 OK", b"answer", "1", "6")
    assert (request.method, request.path, request.body) == ("POST", "/gate", b"{}")
    assert request.headers["idempotency-key"] == "k"


def test_a_body_that_is_too_large_is_not_read() -> None:
    status, _, _, seen = call(b"{}", CONTENT_LENGTH=str(web.MAX_BODY + 1))
    assert status.startswith("413")
    assert not seen
