"""Whether somebody still reads a streamed answer, as the connection tells below HTTP."""

from __future__ import annotations

import select
import socket
from collections.abc import Mapping
from typing import Any

SERVERS_SOCKETS = ("gunicorn.socket", "werkzeug.socket")
"""Where WSGI servers put the connection; the WSGI standard knows none."""

IDLE_SECONDS, PROBE_SECONDS, PROBES = 10, 5, 3


class Reader:
    """Who sent a request. `gone` is always false where the server does not give its connection away.

    A reader whose machine has vanished without closing the connection is noticed by probes, after 25 s.
    """

    def __init__(self, environ: Mapping[str, Any]) -> None:
        self._poll = select.poll()
        connection = next((environ[name] for name in SERVERS_SOCKETS if name in environ), None)
        if connection is not None:
            self._poll.register(connection, select.POLLRDHUP)
            if connection.family in (socket.AF_INET, socket.AF_INET6):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, IDLE_SECONDS)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, PROBE_SECONDS)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, PROBES)

    @property
    def gone(self) -> bool:
        """Whether the other side has closed the connection."""
        return bool(self._poll.poll(0))
