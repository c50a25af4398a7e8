"""A node that runs nothing and serves logs: the API server fetches them from it as from any kubelet."""

from __future__ import annotations

import ssl
import subprocess
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from pipeline_core.clusters.kubernetes.api import MERGE, KubernetesApi


class NodeLogs:
    """What the node has, by pod and container; `earlier` of the runs before the last restarts.

    `broken` makes it answer 500; `cut` ends each answer after so many bytes, without saying that it is not whole.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.now: dict[tuple[str, str], str] = {}
        self.earlier: dict[tuple[str, str], str] = {}
        self.broken = False
        self.cut: int | None = None
        self.asked = 0

    def write(self, pod: str, *lines: str, container: str = "main") -> None:
        """Append to a log: each line is the part of a second at noon, and the text."""
        stamped = "".join(f"2026-03-01T12:00:{line}\n" for line in lines)
        self.now[pod, container] = self.now.get((pod, container), "") + stamped

    def turn_over(self, pod: str) -> None:
        """As a node does with a log that has become large: what there was is not served any more."""
        self.now[pod, "main"] = ""

    def restart(self, pod: str) -> None:
        self.earlier[pod, "main"] = self.now.pop((pod, "main"))

    def answer(self, pod: str, container: str, query: dict[str, list[str]]) -> bytes | None:
        text = (self.earlier if "previous" in query else self.now).get((pod, container))
        if text is None:
            return None
        since = query.get("sinceTime", [""])[0][:19]
        lines = [line for line in text.splitlines(keepends=True) if line[:19] >= since]
        if "tailLines" in query:
            count = int(query["tailLines"][0])
            lines = lines[max(0, len(lines) - count) :]
        return "".join(lines).encode()[: self.cut]


@contextmanager
def serving_logs(api: KubernetesApi, directory: Path) -> Iterator[NodeLogs]:
    """A node of the cluster for as long as it is needed."""
    logs = NodeLogs(f"node-{uuid.uuid4().hex[:12]}")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            logs.asked += 1
            url = urlsplit(self.path)
            *_, pod, container = url.path.split("/")
            body = None if logs.broken else logs.answer(pod, container, parse_qs(url.query))
            self.send_response(200 if body is not None else 500 if logs.broken else 404)
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = _encrypted(directory).wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        api.request("POST", "/api/v1/nodes", body={"metadata": {"name": logs.name}})
        status = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": server.server_port}},
        }
        api.request("PATCH", f"/api/v1/nodes/{logs.name}/status", body={"status": status}, content=MERGE)
        yield logs
    finally:
        api.request("DELETE", f"/api/v1/nodes/{logs.name}")
        server.shutdown()
        thread.join()
        server.server_close()


def _encrypted(directory: Path) -> ssl.SSLContext:
    key, certificate = directory / "node.key", directory / "node.crt"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "1",
        "-subj",
        "/CN=node",
    ]
    subprocess.run([*command, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context
