"""`pipeline up` with small programs in place of the service's own, to be run as a program by tests."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

from pipeline_cli.up import up
from pipeline_core.clusters import factory
from pipeline_up.plan import ProcessPlan
from pipeline_up.service import Service

API = """
import http.server, os, socket, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(os.environ.get(self.path[1:], "").encode())
    def log_message(self, *arguments): pass
server = http.server.HTTPServer(("", 0), Handler, bind_and_activate=False)
server.socket = socket.socket(fileno=int(sys.argv[1]))
server.serve_forever()
"""
# A worker with a child in its group; both ignore SIGTERM. It is ready when it has the child.
STUBBORN = """
import os, signal, sys, time
if "STUB_FAILS" in os.environ: sys.exit(os.environ["STUB_FAILS"])
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork(): open(os.path.join(sys.argv[1], "forked"), "w").close()
while True: time.sleep(60)
"""


def services(plan: ProcessPlan) -> list[Service]:
    program = (sys.executable, "-c")
    mark = str(plan.data_dir)
    forked = plan.data_dir / "forked"
    forked.unlink(missing_ok=True)
    return [
        Service(
            name="api",
            argv=(*program, API, str(plan.listener), mark),
            env=plan.environment,
            ready=lambda seconds: plan.api_ready(),
            pass_fds=(plan.listener,),
        ),
        Service(
            name="stubborn",
            argv=(*program, STUBBORN, mark),
            env=plan.environment,
            ready=lambda seconds: forked.exists(),
            stop_seconds=float(os.environ.get("STUB_STOP_SECONDS", "0.5")),
        ),
    ]


class NoCluster:
    def watch(self, stop: Any) -> Iterator[tuple[str, ...]]:
        yield ()


if __name__ == "__main__":
    factory.cluster = NoCluster  # type: ignore[assignment]
    ProcessPlan.services = services  # type: ignore[method-assign]
    up()
