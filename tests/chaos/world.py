"""A whole installation with a plugin in every stage, restarted by a supervisor, and the invariants of its jobs."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg2
from redis import Redis

from pipeline_core.clusters.local.driver import LocalCluster
from tests.builders import container, plugin, role, taskset_of
from tests.installation import Installation, installed
from tests.plugin_server import Call, PluginServer, serving
from tests.servers import fresh_database
from tests.waiting import wait_for

QUICK = {
    "PIPELINE_LEASE_SECONDS": "2",
    "PIPELINE_WAKE_AFTER_SECONDS": "2",
    "PIPELINE_RECONCILE_SECONDS": "3",
    "PIPELINE_HOOK_RETRY_MIN_SECONDS": "0.2",
    "PIPELINE_STOP_GRACE_SECONDS": "1",
}
ROLES = ("chief", "worker")
STRAIGHT = ["waiting", "running", "succeeded"]
SUSPENDED = ["waiting", "suspended", "waiting", "running", "succeeded"]

TRANSLATOR = "TemplateTranslator.translator.tests"
FACTORS = "FactorGenerator.priority.tests"
GATES = ("AccessGate.first.tests", "AccessGate.second.tests")
DECORATOR = "TemplateDecorator.decorator.tests"
BINDER = "SchedulerBinder.binder.tests"
PLUGINS = (TRANSLATOR, FACTORS, *GATES, DECORATOR, BINDER)


@dataclass
class World:
    """`starts` is where every replica leaves a line when it starts, in a file of its job's name."""

    service: Installation
    plugins: PluginServer
    database_url: str
    starts: Path
    jobs: dict[str, str] = field(default_factory=dict)

    def register(self) -> None:
        """One plugin for every stage, two gates, and a subscriber to all events."""
        serve, register = self.plugins.plugin, self.service.register
        register(
            "translator", _plugin("TemplateTranslator", serve("/translator", lambda packet: packet["job"]["makes"]))
        )
        register("priority", _plugin("FactorGenerator", serve("/priority", lambda _: {"topic": "p", "advice": 1})))
        register("first", _plugin("AccessGate", serve("/first", _first_gate)))
        register("second", _plugin("AccessGate", serve("/second", lambda _: {"decision": "pass"})))
        register("decorator", _plugin("TemplateDecorator", serve("/decorator", lambda packet: packet["job"])))
        register("binder", _plugin("SchedulerBinder", serve("/binder", lambda packet: packet["job"])))
        register("hook", _plugin("LifeHook", serve("/hook", lambda _: "OK")))

    def body(self, name: str, *, seconds: float = 0, **header: Any) -> dict[str, Any]:
        """The submission of a job that needs every stage; its replicas leave a line each, and run for so long."""
        roles = [
            role(each, container(f'echo {each} >> "{self.starts / name}"; exec sleep {seconds}')) for each in ROLES
        ]
        job = {"kind": "Training", "makes": taskset_of(*roles)}
        return {"userID": "u1", "jobName": name, "jobKind": "Training", "header": header, "job": job}

    def submit(self, name: str, *, seconds: float = 0, **header: Any) -> str:
        """Submit a job, as `body` describes it."""
        # The same key, so that a submission whose answer was lost can be sent again.
        key = {"Idempotency-Key": name}
        body = self.body(name, seconds=seconds, **header)

        def submitted() -> str | None:
            with suppress(OSError):
                response = self.service.ask("POST", "/v1/job", body, **key)
                if response.status_code != 503:
                    assert response.status_code == 200, response.text
                    return str(response.json()["payload"]["jobID"])
            return None

        self.jobs[name] = wait_for(submitted, f"{name} to be taken")
        return self.jobs[name]

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """The rows of a query, as soon as the database answers. Write `= ANY(%s)` for a list of values."""

        def read() -> tuple[list[tuple[Any, ...]]] | None:
            with (
                suppress(psycopg2.OperationalError),
                closing(psycopg2.connect(self.database_url)) as connection,
                connection.cursor() as cursor,
            ):
                # A pooler closes the session of a client that leaves it within a transaction.
                connection.autocommit = True
                cursor.execute(statement, values)
                return (list(cursor.fetchall()),)
            return None

        return wait_for(read, "the database to answer")[0]

    def progress(self) -> Any:
        """A value that changes as long as jobs make progress: how many rows each has, and which failures happened."""
        written = (
            "SELECT (SELECT count(*) FROM events), (SELECT count(*) FROM trail),"
            " (SELECT count(*) FROM deliveries WHERE status <> 'waiting'),"
            " (SELECT sum(epoch) FROM jobs), (SELECT count(*) FROM jobs WHERE cleanup = 'pending')"
        )
        return self.rows(written), len(list(self.service.faults.iterdir())), len(self.plugins.calls)

    def redis(self) -> Redis:
        """A client of the installation's broker."""
        return Redis.from_url(self.service.environment["PIPELINE_REDIS_URL"])

    def cluster(self) -> LocalCluster:
        """The installation's cluster, seen from outside."""
        root = Path(self.service.environment["PIPELINE_DATA_DIR"]) / "cluster"
        return LocalCluster("local", root, slots=32, grace_seconds=1.0)

    def states(self) -> dict[str, str]:
        """The state of every job by its name."""
        return dict(self.rows("SELECT name, state FROM jobs"))

    def wait_ended(self, *names: str) -> None:
        """Wait until these jobs (all, if none is named) have ended, are cleaned up and have no waiting deliveries."""
        ids = [self.jobs[name] for name in names or self.jobs]
        open_jobs = (
            "SELECT name, state, stage, reason, cleanup FROM jobs WHERE id = ANY(%s)"
            " AND (finished_at IS NULL OR cleanup = 'pending'"
            " OR EXISTS (SELECT FROM deliveries d WHERE d.subject_id = jobs.id AND d.status = 'waiting'))"
        )
        try:
            wait_for(lambda: not self.rows(open_jobs, ids), "the jobs to end", progress=self.progress)
        except AssertionError as error:
            steps = self.rows("SELECT * FROM steps WHERE job_id = ANY(%s)", ids)
            raise AssertionError(f"{error}: {self.rows(open_jobs, ids)}; steps: {steps}") from None

    def resume_when_suspended(self, *names: str) -> None:
        """Resume each of these jobs once, when its gate has suspended it; a response may be lost."""

        def resumed(name: str) -> bool:
            state, suspended = self.rows(
                "SELECT state, EXISTS (SELECT FROM events e WHERE e.job_id = jobs.id AND e.state = 'suspended')"
                " FROM jobs WHERE name = %s",
                name,
            )[0]
            if state == "suspended":
                with suppress(OSError):
                    self.service.ask("PUT", f"/v1/job/resume/{self.jobs[name]}")
            return bool(suspended) and state != "suspended"

        for name in names:
            wait_for(lambda name=name: resumed(name), f"{name} to be resumed", progress=self.progress)  # type: ignore[misc]

    def check(self, name: str, events: list[str] = STRAIGHT) -> None:
        """Check the invariants of a job that should succeed, whatever was killed meanwhile."""
        job_id = self.jobs[name]
        ((state, reason),) = self.rows("SELECT state, reason FROM jobs WHERE id = %s", job_id)
        assert state == "succeeded", reason
        assert self.rows("SELECT count(*) FROM jobs WHERE name = %s", name) == [(1,)], "it was taken once"
        self.check_events(name, events)
        self.check_trail(name)
        self.check_launched_once(name)

    def check_launched_once(self, name: str) -> None:
        """Each replica was started once."""
        assert sorted((self.starts / name).read_text().split()) == list(ROLES)

    def check_trail(self, name: str) -> None:
        """Each plugin's answer is written once, and repeated requests had the same Idempotency-Key."""
        job_id = self.jobs[name]
        trail = self.rows(
            "SELECT plugin_key, outcome, call_number FROM trail WHERE job_id = %s AND outcome <> 'resumed'", job_id
        )
        assert Counter(trail) == Counter((key, "answered", 1) for key in PLUGINS)
        keys = {call.headers["Idempotency-Key"] for call in self._calls(job_id) if call.path != "/hook"}
        assert keys == {f"{job_id}:{stage}:{plugin}:1" for stage, plugin in _ASKED}

    def check_events(self, name: str, events: list[str]) -> None:
        """Every change was written once and in order, and the subscriber got each event, in order."""
        job_id = self.jobs[name]
        written = self.rows("SELECT sequence, state FROM events WHERE job_id = %s ORDER BY sequence", job_id)
        assert written == list(enumerate(events, 1))
        statuses = self.rows("SELECT sequence, status FROM deliveries WHERE subject_id = %s ORDER BY sequence", job_id)
        assert statuses == [(sequence, "delivered") for sequence, _ in written]
        received = [call for call in self._calls(job_id) if call.path == "/hook"]
        ids: dict[int, set[str]] = defaultdict(set)
        for call in received:
            ids[call.body["sequence"]].add(call.headers["Idempotency-Key"])
        assert [len(ids[sequence]) for sequence, _ in written] == [1] * len(written), "repeated under the same id only"
        order = [call.body["sequence"] for call in received]
        assert order == sorted(order), "in order"

    def _calls(self, job_id: str) -> list[Call]:
        return [
            call
            for call in list(self.plugins.calls)
            if job_id in (call.body.get("id"), call.body.get("header", {}).get("jobID"))
        ]


_ASKED = (
    ("translate", TRANSLATOR),
    ("factors", FACTORS),
    *(("gates", gate) for gate in GATES),
    ("decorate", DECORATOR),
    ("bind", BINDER),
)


def _plugin(kind: str, address: str) -> dict[str, Any]:
    return plugin(kind, address, timeoutSeconds=2 if kind == "LifeHook" else 10)


def _first_gate(packet: dict[str, Any]) -> dict[str, Any]:
    return {"decision": "suspend" if packet["header"].get("park") else "pass"}


@contextmanager
def supervised(service: Installation) -> Iterator[None]:
    """Restart each process of the service that ends, as a supervisor would, until the block ends."""
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.1):
            for name, process in list(service.processes.items()):
                if process.poll() is not None and service.processes.get(name) is process:
                    with suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
                    service.start(name)

    thread = threading.Thread(target=look, daemon=True, name="supervisor")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def a_world(
    directory: Path, postgres_url: str, migrated_database: str, redis_url: str, **options: Any
) -> Iterator[World]:
    """A world on a database of its own; `options` are those of `a_world_on`."""
    with (
        fresh_database(postgres_url, template=migrated_database) as database_url,
        a_world_on(directory, database_url, redis_url, **options) as world,
    ):
        yield world


@contextmanager
def a_world_on(
    directory: Path,
    database_url: str,
    redis_url: str,
    *,
    prepare: Callable[[Installation], None] = lambda service: None,
    **variables: str,
) -> Iterator[World]:
    """An installation whose API runs already and that has all plugins; nothing else of it is started yet.

    The database has all tables and no rows. `prepare` may change its services before the first of them starts.
    """
    starts = directory / "starts"
    starts.mkdir(parents=True)
    with (
        serving() as plugins,
        installed(directory, database_url, redis_url, **{**QUICK, **variables}) as service,
        supervised(service),
    ):
        world = World(service, plugins, database_url, starts)
        prepare(service)
        service.start("api")
        wait_for(lambda: _answers(service), "the API")
        world.register()
        yield world


def _answers(service: Installation) -> bool:
    with suppress(OSError):
        return service.ask("GET", "/readyz").status_code == 200
    return False
