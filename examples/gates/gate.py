"""AccessGate: lets small jobs pass and suspends large ones until somebody has looked at them. Standard library only.

python gate.py 9201
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SMALL = 8  # replicas


def decide(packet):
    replicas = sum(role.get("replicas", 1) for role in packet["job"]["spec"]["roles"])
    if replicas <= SMALL:
        return {"decision": "pass", "reason": f"{replicas} of at most {SMALL} replicas"}
    return {"decision": "suspend", "reason": f"{replicas} replicas are more than {SMALL}: somebody has to agree"}


class Gate(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            status, answer = 200, decide(json.loads(body))
        except (ValueError, LookupError, TypeError):
            status, answer = 400, {"error": "this is no packet"}
        answer = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


class Server(ThreadingHTTPServer):
    request_queue_size = 128  # the service makes up to so many calls at a time; 5 would be the default


if __name__ == "__main__":
    Server(("127.0.0.1", int(sys.argv[1])), Gate).serve_forever()
