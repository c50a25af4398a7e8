"""A whole installation for tests: the service's real processes, on servers and in a directory of the test's own."""

from __future__ import annotations

import base64
import os
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests

from pipeline_up.environment import child_environment
from pipeline_up.listener import Listener
from pipeline_up.plan import ProcessPlan
from pipeline_up.service import Service
from tests import preloaded
from tests.waiting import HANG_SECONDS, wait_for


@dataclass
class Installation:
    """Processes by name, and a client that is the admin. In `faults` each fault that was asked for leaves a file."""

    services: dict[str, Service]
    directory: Path
    url: str
    environment: dict[str, str]
    faults: Path
    processes: dict[str, preloaded.Process] = field(default_factory=dict)
    session: requests.Session = field(default_factory=requests.Session)
    password: str = "admin"

    def start(self, *names: str) -> None:
        """Start these processes; all of them if none is named."""
        for name in names or self.services:
            service = self.services[name]
            with (self.directory / f"{name}.log").open("ab") as log:
                self.processes[name] = preloaded.start(service.argv, dict(service.env or {}), log, service.pass_fds)

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """End a process with all its children, at once."""
        process = self.processes.pop(name)
        os.killpg(process.pid, number)
        process.wait(HANG_SECONDS)

    def stop(self) -> None:
        """End all of them, at once: what they hold, they hold in the database."""
        for name in list(self.processes):
            self.kill(name)

    def log(self, name: str) -> str:
        """What a process has written so far."""
        return (self.directory / f"{name}.log").read_text(errors="replace")

    def ask(
        self, method: str, path: str, body: Any = None, *, token: str | None = None, **headers: str
    ) -> requests.Response:
        """One request to the API."""
        return self.session.request(
            method,
            f"{self.url}{path}",
            json=body,
            headers={"token": token or self.password, **headers},
            timeout=HANG_SECONDS,
        )

    def get(self, path: str) -> Any:
        """The payload of a GET that must succeed."""
        return self._payload(self.ask("GET", path))

    def put(self, path: str, body: Any = None) -> Any:
        """The payload of a PUT that must succeed."""
        return self._payload(self.ask("PUT", path, body))

    def post(self, path: str, body: Any) -> Any:
        """The payload of a POST that must succeed."""
        return self._payload(self.ask("POST", path, body))

    @staticmethod
    def _payload(response: requests.Response) -> Any:
        assert response.status_code == 200, response.text
        return response.json().get("payload")

    def register(self, name: str, *plugins: dict[str, Any], **fields: Any) -> None:
        """Register a feature and turn it on."""
        feature = {"name": name, "author": "tests", "plugins": list(plugins), "enabled": True, **fields}
        self.post("/v1/features", feature)
        self.put(f"/v1/features/turn-on/{name}")

    def submit(self, job: dict[str, Any], *, name: str = "train", header: dict[str, Any] | None = None) -> str:
        """Submit a job; its ID."""
        body = {"userID": "u1", "jobName": name, "jobKind": job["kind"], "header": header or {}, "job": job}
        return str(self.post("/v1/job", body)["jobID"])

    def job(self, job_id: str) -> dict[str, Any]:
        """The `job` part of its detail."""
        return dict(self.get(f"/v1/job/detail/{job_id}")["job"])

    def wait_state(self, job_id: str, *states: str) -> dict[str, Any]:
        """The job's detail once it is in one of these states."""

        def found() -> dict[str, Any] | None:
            job = self.job(job_id)
            return job if job["state"] in states else None

        return wait_for(found, f"{job_id} to be {' or '.join(states)}", progress=lambda: self._progress(job_id))

    def _progress(self, job_id: str) -> tuple[Any, ...]:
        job = self.job(job_id)
        return (*self.events(job_id), job["state"], job["reason"])

    def events(self, job_id: str) -> list[str]:
        """The states that a job went through."""
        return [event["state"] for event in self.get(f"/v1/job/events/{job_id}")]


@contextmanager
def installed(
    directory: Path, database_url: str, redis_url: str, *, split: bool = True, **variables: str
) -> Iterator[Installation]:
    """An installation whose processes are yet to be started; whatever runs of it at the end is ended. `split`: each kind has a
    process of its own, so that a test can end it; else they are those of `pipeline up`."""
    prefix = f"{directory.name}-{os.getpid()}:"
    faults = directory / "faults"
    faults.mkdir()
    with closing(Listener("127.0.0.1", 0)) as listener:
        environment = child_environment(
            {name: value for name, value in os.environ.items() if not name.startswith("PIPELINE_")}
            | {"PIPELINE_REDIS_PREFIX": prefix, "PIPELINE_FAILPOINT_DIR": str(faults), **variables},
            database_url=database_url,
            redis_url=redis_url,
            secret_key=base64.urlsafe_b64encode(b"k" * 32).decode(),
            data_dir=directory,
            loopback=True,
        )
        (directory / "run").mkdir()
        plan = ProcessPlan(
            environment=environment,
            data_dir=directory,
            listener=listener.fileno,
            api_ready=lambda: True,
            stage_workers=2,
            hook_workers=1,
            split=split,
        )
        installation = Installation(
            services={service.name: service for service in plan.services()},
            directory=directory,
            url=listener.url,
            environment=environment,
            faults=faults,
        )
        try:
            yield installation
        finally:
            installation.stop()
