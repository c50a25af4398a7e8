"""PostgreSQL restarted, crashed and cut off under load: requests get 503, and nothing is half-written."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import psycopg2
import pytest
import requests

from pipeline_up.embedded import EmbeddedPostgres
from tests.chaos.servers import Restartable, restartable
from tests.chaos.world import SUSPENDED, World, a_world
from tests.servers import fresh_database
from tests.waiting import HANG_SECONDS, wait_for

JOBS = 8


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Restartable]:
    # Durable: a server that does not wait for the disk loses what it has just committed when it crashes.
    with restartable(EmbeddedPostgres(tmp_path_factory.mktemp("postgres") / "server")) as server:
        yield server


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, postgres: Restartable, redis_url: str) -> Iterator[World]:
    from pipeline_core.database.migrate import upgrade

    with fresh_database(postgres.url) as template:
        upgrade(template)
        name = template.rpartition("/")[2].partition("?")[0]
        with a_world(tmp_path_factory.mktemp("world"), postgres.url, name, redis_url) as world:
            world.service.start("stages1", "hooks1", "housekeeping", "beat", "watcher")
            yield world


class Asking:
    """A client that calls the API without pause, and records the answers."""

    def __init__(self, url: str) -> None:
        self.answers: list[requests.Response] = []
        self._url, self._over = url, threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)

    def _ask(self) -> None:
        with requests.Session() as session:
            while not self._over.wait(0.02):
                self.answers.append(
                    session.get(f"{self._url}/v1/job/list", headers={"token": "admin"}, timeout=HANG_SECONDS)
                )

    def __enter__(self) -> Asking:
        self._thread.start()
        wait_for(lambda: self.answers, "a first answer")
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


@contextmanager
def under_load(world: World, name: str) -> Iterator[Asking]:
    """Jobs in all states and requests without pause, during the block; afterwards all jobs end well."""
    before = {service: process.pid for service, process in world.service.processes.items()}
    parked = [f"{name}-parked-{number}" for number in range(2)]
    for job in parked:
        world.submit(job, park=True)
    for job in parked:
        world.service.wait_state(world.jobs[job], "suspended")
    world.submit(f"{name}-running", seconds=4)
    jobs = [f"{name}-running", *(f"{name}-{number}" for number in range(JOBS))]
    for job in jobs[1:]:
        world.submit(job)
    with Asking(world.service.url) as asking:
        yield asking
        world.submit(f"{name}-after")
        wait_for(lambda: asking.answers[-1].status_code == 200, "the API to answer again")
    world.resume_when_suspended(*parked)
    world.wait_ended()
    for job in [*jobs, f"{name}-after"]:
        world.check(job)
    for job in parked:
        world.check(job, SUSPENDED)
    assert {answer.status_code for answer in asking.answers} <= {200, 503}
    assert all("Retry-After" in answer.headers for answer in asking.answers if answer.status_code == 503)
    after = {service: process.pid for service, process in world.service.processes.items()}
    assert after == before, "nobody had to be started again"


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGQUIT], ids=["shut down", "crashed"])
def test_a_restart_costs_time_only(world: World, postgres: Restartable, end: signal.Signals) -> None:
    with under_load(world, f"restart-{end.name}") as asking:
        postgres.end(end)
        try:
            wait_for(lambda: asking.answers[-1].status_code == 503, "the API to say that the database is away")
        finally:
            postgres.start()


def test_connections_that_are_cut_in_mid_transaction_leave_nothing_half_done(world: World) -> None:
    cut = (
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    with under_load(world, "cut"), closing(psycopg2.connect(world.database_url)) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            for _ in range(40):
                cursor.execute(cut)
                cursor.execute("SELECT pg_sleep(0.1)")
