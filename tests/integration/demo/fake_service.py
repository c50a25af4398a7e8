"""What stands in for `pipeline`: `up` serves canned answers in the forms of the contract, all else is the real thing.

FAKE_SERVICE says how it behaves: `well`, `dies` at once, `hangs` with the job for ever running, or `fails` the job.
"""

from __future__ import annotations

import json
import os
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from pipeline_cli import main

BEHAVIOUR = os.environ["FAKE_SERVICE"]
ENDING = {"hangs": "running", "fails": "failed"}.get(BEHAVIOUR, "succeeded")
EVENTS = [
    {"sequence": number, "state": state, "occurredAt": f"2025-01-31T12:00:0{number}Z"}
    for number, state in enumerate(["waiting", ENDING], start=1)
]
PAYLOADS = {
    "POST /v1/job": {"jobID": "j01"},
    "GET /v1/job/events/j01": EVENTS,
    "GET /v1/job/trail/j01": [],
    "GET /v1/job/detail/j01": {"job": {"id": "j01", "state": ENDING, "exitCode": 0}, "tasks": []},
    "GET /v1/job/taskset/j01": {"kind": "TaskSet"},
    "GET /v1/hooks/deliveries": [{"id": f"d{number}", "status": "delivered"} for number in (1, 2)],
    "GET /v1/plugins/list/all": [],
    "GET /readyz": None,
}


class Handler(BaseHTTPRequestHandler):
    def answer(self) -> None:
        path = self.path.partition("?")[0]
        sent = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        if ports := re.findall(r"127\.0\.0\.1:(\d+)/", sent):
            Path(os.environ["FAKE_SERVICE_PORTS"]).write_text("\n".join(ports))
        if path.startswith("/v1/job/logs/"):
            return self.send("text/plain", b"chief: done\n")
        envelope = {"code": "OPERATION_SUCCEEDED", "msg": "", "payload": PAYLOADS.get(f"{self.command} {path}")}
        return self.send("application/json", json.dumps(envelope).encode())

    def send(self, media_type: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PUT = answer


if sys.argv[1:2] != ["up"]:
    main()
if BEHAVIOUR == "dies":
    sys.exit("there is no room on the disk")
ThreadingHTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Handler).serve_forever()
