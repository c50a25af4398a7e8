"""Many suspended jobs, which hold nothing but rows, and many deliveries that are due after a long outage."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from psycopg2.extras import execute_values

from pipeline_core.common.clock import now
from pipeline_core.common.ids import new_delivery_id, new_job_id
from tests.builders import taskset
from tests.installation import Installation, installed
from tests.plugin_server import PluginServer, serving
from tests.servers import fresh_database
from tests.waiting import wait_for

SERVICES = ("api", "stages1", "hooks1", "housekeeping", "beat", "watcher")
QUICK = {
    "PIPELINE_CLUSTER_DRIVER": "null",
    "PIPELINE_HOOK_RETRY_MIN_SECONDS": "0.2",
    "PIPELINE_BREAKER_OPEN_SECONDS": "2",
}
SUSPENDED = 10_000
RESUMED = 1_000
TIMED = 300


@pytest.fixture
def database_url_of_its_own(postgres_url: str, migrated_database: str) -> Iterator[str]:
    with fresh_database(postgres_url, template=migrated_database) as url:
        yield url


@pytest.fixture
def service(tmp_path: Path, database_url_of_its_own: str, redis_url: str) -> Iterator[Installation]:
    with installed(tmp_path, database_url_of_its_own, redis_url, **QUICK) as service:
        service.start(*SERVICES)
        wait_for(lambda: service.ask("GET", "/readyz").status_code == 200, "the API")
        yield service


@pytest.fixture
def plugins() -> Iterator[PluginServer]:
    with serving() as server:
        yield server


def insert_jobs(url: str, count: int, *, state: str, stage: str, sequence: int, **columns: Any) -> list[str]:
    """Jobs as the service would have left them, with their documents; their IDs."""
    moment = now() - timedelta(minutes=5)
    ids = [new_job_id(moment + timedelta(milliseconds=number)) for number in range(count)]
    fixed: dict[str, Any] = {
        "user_id": "u1", "name": "many", "kind": "TaskSet", "namespace": "default", "state": state, "stage": stage,
        "epoch": 1, "reason": "", "event_sequence": sequence, "attempt": 0, "retried": 0, "created_at": moment,
        "suspended_by": "", "on_timeout": "", "resumer": "", "exit_diagnostics": "", "submitted_by": "admin",
        "request_id": "", "traceparent": "", **columns,
    }  # fmt: skip
    with closing(psycopg2.connect(url)) as connection, connection, connection.cursor() as cursor:
        names = ", ".join(("id", *fixed))
        execute_values(cursor, f"INSERT INTO jobs ({names}) VALUES %s", [(job_id, *fixed.values()) for job_id in ids])
        documents = []
        for job_id in ids:
            document = {**taskset(), "metadata": {"name": job_id, "namespace": "default"}}
            header = {"userID": "u1", "jobName": "many", "jobKind": "TaskSet", "jobID": job_id}
            documents.append((job_id, json.dumps(header), json.dumps(document), json.dumps(document), "{}"))
        execute_values(
            cursor, "INSERT INTO job_documents (job_id, header, submitted, taskset, factors) VALUES %s", documents
        )
    return ids


def ask_database(url: str, statement: str, *values: Any) -> Any:
    with closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
        cursor.execute(statement, values)
        return cursor.fetchone()[0]  # type: ignore[index]


def test_suspended_jobs_hold_nothing_and_a_thousand_resume_at_once(
    service: Installation, database_url_of_its_own: str
) -> None:
    url = database_url_of_its_own
    before = ask_database(url, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
    suspended = {"suspended_by": "AccessGate.quota.tests", "suspended_at": now()}
    ids = insert_jobs(url, SUSPENDED, state="suspended", stage="gates", sequence=2, **suspended)
    assert ask_database(url, "SELECT count(*) FROM steps") == 0
    assert ask_database(url, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()") <= before + 2
    chosen = ids[:: SUSPENDED // RESUMED]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda job_id: service.ask("PUT", f"/v1/job/resume/{job_id}").status_code, chosen))
    assert answers == [200] * RESUMED
    ended = "SELECT count(*) FROM jobs WHERE state = 'succeeded'"
    wait_for(
        lambda: ask_database(url, ended) == RESUMED,
        "all that were resumed to succeed",
        progress=lambda: ask_database(url, "SELECT count(*) FROM events"),
    )
    assert ask_database(url, "SELECT count(*) FROM jobs WHERE state = 'suspended'") == SUSPENDED - RESUMED
    launched = "SELECT count(*) FROM events WHERE state = 'running'"
    assert ask_database(url, launched) == RESUMED


def test_suspensions_that_time_out_together_end_once_each(service: Installation, database_url_of_its_own: str) -> None:
    url = database_url_of_its_own
    over = {"suspended_by": "AccessGate.quota.tests", "suspended_at": now(), "suspended_until": now()}
    insert_jobs(url, TIMED, state="suspended", stage="gates", sequence=2, on_timeout="stop", **over)
    stopped = "SELECT count(*) FROM jobs WHERE state = 'stopped'"
    wait_for(
        lambda: ask_database(url, stopped) == TIMED,
        "all suspensions to end",
        progress=lambda: ask_database(url, stopped),
    )
    assert ask_database(url, "SELECT count(*) FROM events WHERE state = 'stopped'") == TIMED


def test_after_an_outage_all_deliveries_arrive_in_order_and_nobody_else_waits(
    service: Installation, plugins: PluginServer, database_url_of_its_own: str, request: pytest.FixtureRequest
) -> None:
    url = database_url_of_its_own
    down = True
    received: dict[str, list[int]] = defaultdict(list)

    def once_down(event: dict[str, Any]) -> Any:
        if down:
            return 503, "down"
        received[event["id"]].append(event["sequence"])
        return "OK"

    states = {"jobSelector": {"states": ["succeeded"]}}
    service.register("late", {"pluginType": "LifeHook", "callAddress": plugins.plugin("/late", once_down), **states})
    service.register("prompt", {"pluginType": "LifeHook", "callAddress": plugins.plugin("/prompt", lambda _: "OK")})
    count = request.config.getoption("--due-deliveries")
    jobs = insert_due_deliveries(url, "LifeHook.late.tests", count)
    job_id = service.submit(taskset())
    wait_for(lambda: len([c for c in plugins.calls_of("/prompt") if c.body["id"] == job_id]) == 3, "the prompt one")
    tried = len(plugins.calls_of("/late"))
    assert tried < count / 2, "while it is down, it is probed and not flooded"
    down = False
    left = "SELECT count(*) FROM deliveries WHERE status = 'waiting'"
    wait_for(
        lambda: ask_database(url, left) == 0, "all deliveries to be done", progress=lambda: ask_database(url, left)
    )
    assert set(jobs) <= set(received)
    for sequences in received.values():
        assert all(earlier <= later for earlier, later in pairwise(sequences)), "in order, though some may come twice"
    assert all(set(received[job]) == {1, 2} for job in jobs)


def insert_due_deliveries(url: str, plugin_key: str, count: int) -> list[str]:
    """Insert two events each of half as many jobs, both with waiting deliveries; the jobs' IDs."""
    moment = now() - timedelta(hours=1)
    jobs = insert_jobs(url, count // 2, state="succeeded", stage="cluster", sequence=2, finished_at=moment)
    with closing(psycopg2.connect(url)) as connection, connection, connection.cursor() as cursor:
        events = execute_values(
            cursor,
            "INSERT INTO events (job_id, sequence, state, previous_state, reason, actor, occurred_at) VALUES %s"
            " RETURNING id, job_id, sequence",
            [(job, number, "succeeded", "", "", "", moment) for job in jobs for number in (1, 2)],
            fetch=True,
        )
        execute_values(
            cursor,
            "INSERT INTO deliveries (id, event_id, subject_id, sequence, plugin_key, status, attempts, last_answer, created_at,"
            " next_at, give_up_at) VALUES %s",
            [
                (new_delivery_id(moment), event, job, number, plugin_key, "waiting", 3, "", moment, moment,
                 now() + timedelta(days=1))
                for event, job, number in events
            ],
        )  # fmt: skip
    return jobs
