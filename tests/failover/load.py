"""Jobs submitted without pause while a server is replaced, and what that costs."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise

import requests

from tests.chaos.world import SUSPENDED, World
from tests.waiting import HANG_SECONDS, wait_for

PAUSE_SECONDS = 0.1
BEFORE, AFTER = 12, 12
"""How many jobs of the load have to be taken before the server is killed, and after it is replaced."""

Record = Callable[[str, object], None]
"""Records a figure for the report: pytest's `record_property`."""


@dataclass
class Load:
    """A client that submits one job after the other, each again until it is taken."""

    world: World
    taken_at: list[float] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    killed_at: float = 0.0
    notes: dict[str, str] = field(default_factory=dict)
    _over: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Submit jobs until `end`."""
        with requests.Session() as session:
            while not self._over.wait(PAUSE_SECONDS):
                name = f"load-{len(self.names)}"
                job_id = None
                while job_id is None:
                    job_id = self._submit(session, name)
                self.world.jobs[name] = job_id
                self.names.append(name)
                self.taken_at.append(time.monotonic())

    def kill(self, end: Callable[[], object]) -> None:
        """End a server by this function, and note the moment."""
        self.killed_at = time.monotonic()
        end()

    def note(self, what: str) -> None:
        """Record how long ago the server was killed."""
        self.notes[what] = f"{time.monotonic() - self.killed_at:.1f}"

    def end(self) -> None:
        """Submit no more."""
        self._over.set()

    def _submit(self, session: requests.Session, name: str) -> str | None:
        try:
            response = session.post(
                f"{self.world.service.url}/v1/job",
                json=self.world.body(name),
                headers={"token": "admin", "Idempotency-Key": name},
                timeout=HANG_SECONDS,
            )
        except requests.ConnectionError as error:
            self.refused.append(type(error).__name__)
        else:
            if response.status_code == 200:
                return str(response.json()["payload"]["jobID"])
            self.refused.append(f"{response.status_code}")
            assert response.status_code == 503, response.text
            assert "Retry-After" in response.headers
        time.sleep(PAUSE_SECONDS)
        return None


@contextmanager
def under_load(world: World, promise: str, record: Record) -> Iterator[Load]:
    """Jobs in all states, and others submitted without pause, during the block. Afterwards all of them end well.

    The block kills a server by the load's `kill`. What was promised and measured is recorded.
    """
    before = {service: process.pid for service, process in world.service.processes.items()}
    parked = [f"parked-{number}" for number in range(2)]
    for job in parked:
        world.submit(job, park=True)
    for job in parked:
        world.service.wait_state(world.jobs[job], "suspended")
    world.submit("running", seconds=4)
    load = Load(world)
    thread = threading.Thread(target=load.run, daemon=True)
    thread.start()
    try:
        wait_for(lambda: len(load.names) >= BEFORE, "the first jobs to be taken", progress=lambda: len(load.names))
        yield load
        over = len(load.names)
        wait_for(lambda: len(load.names) >= over + AFTER, "jobs to be taken", progress=lambda: len(load.names))
    finally:
        load.end()
    thread.join(HANG_SECONDS)
    world.resume_when_suspended(*parked)
    world.wait_ended()
    for job in ["running", *load.names]:
        world.check(job)
    for job in parked:
        world.check(job, SUSPENDED)
    after = {service: process.pid for service, process in world.service.processes.items()}
    assert after == before, "nobody had to be started again"
    _report(world, load, promise, record)


def _report(world: World, load: Load, promise: str, record: Record) -> None:
    lost = [job_id for job_id in world.jobs.values() if not world.rows("SELECT FROM jobs WHERE id = %s", job_id)]
    assert not lost
    hooks = world.plugins.calls_of("/hook")
    asked = [call for call in world.plugins.calls if call.path != "/hook"]
    killed_at = load.killed_at
    next_job = next(name for name, at in zip(load.names, load.taken_at, strict=True) if at > killed_at)
    first_event = next(call for call in hooks if call.body["id"] == world.jobs[next_job])
    record("promised", promise)
    for what, seconds in load.notes.items():
        record(what, seconds)
    record("jobs taken", len(world.jobs))
    record("requests refused, and sent again", dict(Counter(load.refused)) or 0)
    gaps = [later - earlier for earlier, later in pairwise(load.taken_at) if later > killed_at]
    record("seconds without a job taken", f"{max(gaps):.1f}")
    record("seconds until the next job's event", f"{first_event.at - killed_at:.1f}")
    record("jobs lost", len(lost))
    record("plugins asked again", len(asked) - len({call.headers["Idempotency-Key"] for call in asked}))
    record("deliveries", len(hooks))
    record("of these doubled", len(hooks) - len({call.headers["Idempotency-Key"] for call in hooks}))
