"""A plugin as an ASGI application (https://asgi.readthedocs.io), of HTTP and lifespan."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Callable

from pipeline_plugin.web import MAX_BODY, TOO_LARGE, Reply, Request

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Application = Callable[[dict[str, Any], Receive, Send], Awaitable[None]]


def application(respond: Callable[[Request], Awaitable[Reply]]) -> Application:
    """The application that answers by `respond`."""

    async def app(scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
        elif scope["type"] == "http":
            body = await _body(receive)
            if body is None:
                return
            reply = TOO_LARGE if len(body) > MAX_BODY else await respond(_request(scope, body))
            await _answer(send, reply, scope["method"] == "HEAD")
        else:
            raise NotImplementedError(f"a plugin answers HTTP, not {scope['type']}")

    return app


def _request(scope: dict[str, Any], body: bytes) -> Request:
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
    return Request(scope["method"], scope["path"], headers, body)


async def _body(receive: Receive) -> bytes | None:
    """The whole body, or as much of it as shows that it is too large; None when the client has gone."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        if not message.get("more_body") or len(body) > MAX_BODY:
            return bytes(body)


async def _answer(send: Send, reply: Reply, bare: bool) -> None:
    headers = [(name.lower().encode(), value.encode()) for name, value in reply.all_headers().items()]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if bare else reply.body})


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
