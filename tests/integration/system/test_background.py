"""The service as `pipeline up` starts it: one process does all but the stages and the API."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import psycopg2
import pytest

from tests.builders import taskset
from tests.installation import Installation, installed
from tests.integration.system.conftest import QUICK
from tests.plugin_server import PluginServer
from tests.servers import fresh_database
from tests.waiting import HANG_SECONDS, wait_for


@pytest.fixture
def service(tmp_path: Path, postgres_url: str, migrated_database: str, redis_url: str) -> Iterator[Installation]:
    with (
        fresh_database(postgres_url, template=migrated_database) as database_url,
        installed(tmp_path, database_url, redis_url, split=False, **QUICK) as service,
    ):
        service.start("api", "stages1", "background")
        wait_for(lambda: service.ask("GET", "/readyz").status_code == 200, "the API")
        yield service


def rows(service: Installation, statement: str) -> list[str]:
    with psycopg2.connect(service.environment["PIPELINE_DATABASE_URL"]) as connection, connection.cursor() as cursor:
        cursor.execute(statement)
        return [row[0] for row in cursor.fetchall()]


def test_it_delivers_watches_ticks_and_stops_when_it_is_asked_to(service: Installation, plugins: PluginServer) -> None:
    service.register("noted", {"pluginType": "LifeHook", "callAddress": plugins.plugin("/hook", lambda event: "OK")})
    job_id = service.submit(taskset())
    service.wait_state(job_id, "succeeded")
    wait_for(lambda: len(plugins.calls_of("/hook", job_id)) == 3, "the deliveries")
    wait_for(lambda: service.job(job_id)["cleanup"] == "done", "the cleanup")
    wait_for(
        lambda: not [one for one in service.get("/v1/status")["problems"] if "stages2" not in str(one)],
        "the status to be without problems",
    )
    process = service.processes.pop("background")
    process.send_signal(signal.SIGTERM)
    assert process.wait(HANG_SECONDS) == 0
    assert rows(service, "SELECT name FROM heartbeats WHERE name LIKE 'worker/background%'") == []
    assert rows(service, "SELECT name FROM leases WHERE name = 'watcher'") == []


def test_what_was_due_when_it_was_killed_is_done_by_the_next(service: Installation, plugins: PluginServer) -> None:
    service.register("noted", {"pluginType": "LifeHook", "callAddress": plugins.plugin("/hook", lambda event: "OK")})
    service.kill("background")
    job_id = service.submit(taskset())
    wait_for(lambda: service.job(job_id)["state"] != "suspended" and service.events(job_id), "the job")
    assert plugins.calls_of("/hook", job_id) == []
    service.start("background")
    service.wait_state(job_id, "succeeded")
    wait_for(lambda: len(plugins.calls_of("/hook", job_id)) == 3, "the deliveries")
