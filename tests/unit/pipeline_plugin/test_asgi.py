"""A plugin as an ASGI application."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pipeline_plugin import asgi, web
from pipeline_plugin.web import Reply, Request

SCOPE = {"type": "http", "method": "POST", "path": "/gate", "headers": [(b"Idempotency-Key", b"k")]}


async def respond(request: Request) -> Reply:
    return Reply(200, request.headers.get("idempotency-key", "").encode() + request.body)


def run(scope: dict[str, Any], *messages: dict[str, Any]) -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = []
    waiting = iter(messages)

    async def receive() -> dict[str, Any]:
        return next(waiting)

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    asyncio.run(asgi.application(respond)(scope, receive, send))  # type: ignore[arg-type]
    return sent


def part(body: bytes, more: bool = False) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


def test_a_request_is_answered() -> None:
    start, body = run(SCOPE, part(b"a", True), part(b"b"))
    assert (start["status"], body["body"]) == (200, b"kab")
    assert (b"content-length", b"3") in start["headers"]


def test_a_client_that_has_gone_is_not() -> None:
    assert run(SCOPE, part(b"a", True), {"type": "http.disconnect"}) == []


def test_a_body_that_is_too_large_is_refused_before_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asgi, "MAX_BODY", 3)
    start, _ = run(SCOPE, part(b"abcd", True))
    assert start["status"] == web.TOO_LARGE.status


def test_it_starts_and_stops_with_its_server() -> None:
    sent = run({"type": "lifespan"}, {"type": "lifespan.startup"}, {"type": "lifespan.shutdown"})
    assert [message["type"] for message in sent] == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


def test_other_protocols_are_refused() -> None:
    with pytest.raises(NotImplementedError):
        run({"type": "websocket"})
