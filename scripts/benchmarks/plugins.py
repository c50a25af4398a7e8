"""Plugins that take a while and change nothing: `python -m scripts.benchmarks.plugins FD MILLISECONDS`.

Serves a plugin of each type, on the bound socket of that number, under the type's name. A LifeHook notes how long after
its event it was called; `GET /lags` answers these milliseconds as a JSON array, `GET /readyz` that the server is up.
"""

from __future__ import annotations

import json
import socket
import sys
import time
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from pipeline_core.common.clock import parse_rfc3339
from pipeline_core.plugins.types import PluginType

FACTORS = b"[]"
PASS = b'{"decision": "pass"}'


def answer(type: PluginType, packet: dict[str, Any]) -> bytes:
    """What the plugin of this type says of a packet: as little as it may."""
    match type:
        case PluginType.TEMPLATE_TRANSLATOR:
            return json.dumps(packet["job"]["taskset"]).encode()
        case PluginType.FACTOR_GENERATOR:
            return FACTORS
        case PluginType.ACCESS_GATE:
            return PASS
        case PluginType.LIFE_HOOK:
            return b"OK"
        case _:
            return json.dumps(packet["job"]).encode()


def serve(listener: socket.socket, seconds: float) -> None:
    """Answer until the process is ended."""
    lags: list[float] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # A small answer must not wait for the acknowledgement of its head.
        wbufsize = -1
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            arrived = datetime.now(UTC)
            packet = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            type = PluginType(self.path[1:])
            if type is PluginType.LIFE_HOOK:
                lags.append((arrived - parse_rfc3339(packet["occurredAt"])).total_seconds() * 1000)
            time.sleep(seconds)
            self._send(answer(type, packet))

        def do_GET(self) -> None:
            self._send(json.dumps(lags).encode() if self.path == "/lags" else b"{}")

        def _send(self, content: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(listener.getsockname(), Handler, bind_and_activate=False)
    server.daemon_threads = True
    server.socket.close()
    server.socket = listener
    server.serve_forever()


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), float(sys.argv[2]) / 1000)
