"""The socket of a client, in which no thread waits for a client that reads slowly."""

from __future__ import annotations

import errno
import select
import socket
from typing import Any

KEPT_BYTES = 1024 * 1024
"""How much of an answer is kept for a client that does not read it. A thread that has more to send waits."""

STALL_SECONDS = 30.0
"""After so long in which a client read nothing of what a thread wants to send, its connection is given up."""


class ClientSocket(socket.socket):
    """A socket that never blocks: `sendall` keeps what the client does not take yet, and `flush` sends that later.

    One thread uses it at a time. Made of an accepted socket, which it takes over.
    """

    def __init__(self, accepted: socket.socket) -> None:
        super().__init__(accepted.family, accepted.type, accepted.proto, accepted.detach())
        super().setblocking(False)
        self._kept = bytearray()
        self._kept_bytes = KEPT_BYTES

    def setblocking(self, flag: bool, /) -> None:
        """Do nothing: gunicorn's threads ask for a socket that blocks."""

    def stream(self) -> None:
        """Keep nothing of this answer: each part is sent before the next one is made. It lasts until `flush`."""
        self._kept_bytes = 0

    def sendall(self, data: Any, flags: int = 0, /) -> None:
        """Send what the client takes now, and keep the rest. Waits only while more than `KEPT_BYTES` are kept.

        Raises ConnectionError when the client has closed the connection, or has read nothing for `STALL_SECONDS`.
        """
        self._kept += data
        self._send_kept()
        while len(self._kept) > self._kept_bytes:
            self._wait_writable()
            self._send_kept()

    def flush(self) -> bool:
        """Send of what is kept as much as the client takes; whether nothing is left, and the answer is done.

        Raises OSError when the client has closed the connection.
        """
        self._send_kept()
        if self._kept:
            return False
        self._kept_bytes = KEPT_BYTES
        return True

    def _send_kept(self) -> None:
        try:
            while self._kept:
                del self._kept[: self.send(self._kept)]
        except BlockingIOError:
            pass

    def _wait_writable(self) -> None:
        poll = select.poll()
        poll.register(self, select.POLLOUT)
        if not poll.poll(STALL_SECONDS * 1000):
            raise ConnectionResetError(errno.ECONNRESET, "The client reads nothing.")
