"""An API server that has pods and control ConfigMaps of jobs and lets their statuses change: `python -m … PORT JOBS REPLICAS`.

Standard input has the jobs' IDs, one a line, and after that the waves: a line `PHASE RATE` changes all pods to that phase,
in no order, so many a second.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

NAMESPACE = "default"
STARTED, FINISHED = "2026-01-01T00:00:01Z", "2026-01-01T00:00:09Z"
CHUNK_SECONDS = 0.01
MANAGED = [{"manager": "kubelet", "operation": "Update", "fieldsV1": {f"f:field{n}": {"f:x": {}} for n in range(60)}}]
"""About what a pod has of this kind."""
ROLE = "worker"


class World:
    """The pods and control ConfigMaps. `versions` are counted as an API server would."""

    def __init__(self, job_ids: list[str], replicas: int) -> None:
        self.controls = [_control(job_id) for job_id in job_ids]
        self.pods = [_pod(job_id, index) for job_id in job_ids for index in range(replicas)]
        self.version = 1
        self.watching = threading.Event()
        self._lines: list[bytes] = []
        self._changed = threading.Condition()

    def wave(self, phase: str, rate: float) -> None:
        """Change all pods to this phase."""
        began = time.perf_counter()
        for number, pod in enumerate(random.sample(self.pods, len(self.pods))):
            ahead = number / rate - (time.perf_counter() - began)
            if ahead > CHUNK_SECONDS:
                time.sleep(ahead)
            self.version += 1
            pod["metadata"]["resourceVersion"] = str(self.version)
            pod["status"] = _status(phase)
            line = json.dumps({"type": "MODIFIED", "object": pod}).encode() + b"\n"
            with self._changed:
                self._lines.append(line)
                self._changed.notify_all()

    def lines(self) -> Iterator[bytes]:
        """All changes from now on."""
        place = len(self._lines)
        self.watching.set()
        while True:
            with self._changed:
                self._changed.wait_for(lambda at=place: len(self._lines) > at)  # type: ignore[misc]
                lines = self._lines[place:]
            place += len(lines)
            yield b"".join(lines)


def _metadata(job_id: str, name: str, **fields: Any) -> dict[str, Any]:
    labels = {"pipeline/job-id": job_id, "pipeline/attempt": "0", **fields.pop("labels", {})}
    return {
        "name": name,
        "namespace": NAMESPACE,
        "uid": f"uid-of-{name}",
        "resourceVersion": "1",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": labels,
        **fields,
    }


def _control(job_id: str) -> dict[str, Any]:
    return {"metadata": _metadata(job_id, f"c-{job_id}-0")}


def _pod(job_id: str, index: int) -> dict[str, Any]:
    labels = {"pipeline/role": ROLE, "pipeline/replica-index": str(index), "pipeline/replica-attempt": "0"}
    owner = {"kind": "ConfigMap", "name": f"c-{job_id}-0", "uid": f"uid-of-c-{job_id}-0"}
    environment = [{"name": f"VARIABLE_{number}", "value": "x" * 40} for number in range(12)]
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": _metadata(
            job_id, f"{job_id}-{ROLE}-0-0-{index}", labels=labels, ownerReferences=[owner], managedFields=MANAGED
        ),
        "spec": {
            "nodeName": "node-1",
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 10,
            "containers": [{"name": "main", "image": "busybox", "command": ["true"], "env": environment}],
        },
        "status": _status("Pending"),
    }


def _status(phase: str) -> dict[str, Any]:
    states = {
        "Pending": {"waiting": {"reason": "ContainerCreating"}},
        "Running": {"running": {"startedAt": STARTED}},
        "Succeeded": {
            "terminated": {"exitCode": 0, "reason": "Completed", "startedAt": STARTED, "finishedAt": FINISHED}
        },
    }
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": STARTED}
        for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    container = {
        "name": "main",
        "state": states[phase],
        "ready": phase == "Running",
        "restartCount": 0,
        "image": "busybox",
        "containerID": f"containerd://{'0' * 64}",
    }
    return {
        "phase": phase,
        "hostIP": "10.0.0.1",
        "podIP": "10.1.0.1",
        # It was taken in just now, whenever that is.
        "startTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "conditions": conditions,
        "containerStatuses": [container],
    }


class Handler(BaseHTTPRequestHandler):
    """Lists and watches, and grants all rights."""

    protocol_version = "HTTP/1.1"
    world: World

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = parse_qs(url.query)
        if query.get("watch"):
            self._watch()
        elif url.path.endswith("/pods"):
            self._list(self.world.pods, query)
        elif url.path.endswith("/configmaps"):
            self._list(self.world.controls, query)
        else:
            name = url.path.rpartition("/")[2]
            self._send(next(one for one in self.world.controls if one["metadata"]["name"] == name))

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._send({"status": {"allowed": True}})

    def _list(self, items: list[dict[str, Any]], query: dict[str, list[str]]) -> None:
        start, limit = int(query.get("continue", ["0"])[0]), int(query.get("limit", ["500"])[0])
        more = {"continue": str(start + limit)} if start + limit < len(items) else {}
        self._send(
            {"metadata": {"resourceVersion": str(self.world.version), **more}, "items": items[start : start + limit]}
        )

    def _send(self, document: dict[str, Any]) -> None:
        body = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _watch(self) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        for lines in self.world.lines():
            self.wfile.write(f"{len(lines):x}\r\n".encode() + lines + b"\r\n")
            self.wfile.flush()

    def log_message(self, *_: object) -> None:
        """Nothing is said of single requests."""


def main() -> None:
    port, jobs, replicas = map(int, sys.argv[1:])
    world = World([sys.stdin.readline().strip() for _ in range(jobs)], replicas)
    Handler.world = world
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    world.watching.wait()
    print("watched", flush=True)
    for line in sys.stdin:
        phase, rate = line.split()
        world.wave(phase, float(rate))


if __name__ == "__main__":
    main()
