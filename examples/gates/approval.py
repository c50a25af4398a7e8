"""AccessGate: suspends every job that its selector takes, until somebody resumes it. Standard library only.

python approval.py 9203
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def decide(header):
    what = " of ".join(filter(None, (header.get("taskName"), header.get("flowName")))) or header["jobName"]
    return {"decision": "suspend", "reason": f"{what} needs somebody's consent"}


class Gate(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            status, answer = 200, decide(json.loads(body)["header"])
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
