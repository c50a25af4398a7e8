"""Whether what was received of a request is enough to serve it."""

from __future__ import annotations

from enum import Enum
from typing import Any

from gunicorn.asgi.parser import ParseError, PythonProtocol

MAX_BYTES = 4 * 1024 * 1024
"""How large a request's body may be."""

READ_BYTES = MAX_BYTES + 1
"""How much of a body is received and read: one byte more than allowed shows that it is too large, also where its length is not
said."""


class Phase(Enum):
    """What a connection waits for."""

    IDLE = "the first byte of a request"
    HEAD = "the rest of its request line and headers"
    BODY = "the rest of its body"
    ANSWER = "the client to read the answer"
    CLOSE = "the client to close the connection"


class RequestReader:
    """One request, as its bytes come in.

    It is `ready` when it is whole, and also when it is to be refused without the rest: when it is malformed, or its body is
    larger than `max_body` bytes. gunicorn's parser reads `received` once more, and refuses it then. `config` is gunicorn's.
    """

    def __init__(self, config: Any, max_body: int) -> None:
        self.received = bytearray()
        self.ready = False
        self.expects_continue = False
        self._max_body = max_body
        self._body = 0
        self._in_body = False
        self._parser = PythonProtocol(
            on_headers_complete=self._finish_head,
            on_body=self._count,
            limit_request_line=config.limit_request_line,
            limit_request_fields=config.limit_request_fields,
            limit_request_field_size=config.limit_request_field_size,
        )

    @property
    def phase(self) -> Phase:
        """What of the request is missing."""
        if not self.received:
            return Phase.IDLE
        return Phase.BODY if self._in_body else Phase.HEAD

    def feed(self, data: bytes) -> None:
        """Take in what was received next."""
        self.received += data
        try:
            self._parser.feed(data)
        except ParseError:
            self.ready = True
        else:
            self.ready = self._parser.is_complete or max(self._body, self._parser.content_length or 0) > self._max_body

    def _finish_head(self) -> bool:
        self._in_body = True
        self.expects_continue = any(
            name == b"expect" and value.lower() == b"100-continue" for name, value in self._parser.headers
        )
        return False

    def _count(self, data: bytes) -> None:
        self._body += len(data)
