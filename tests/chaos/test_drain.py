"""Hook workers that are killed while they drain a subscriber: at each point of a turn, with many calls under way."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from pipeline_core.common.failpoints import Point
from tests.chaos.test_scale import ask_database, insert_due_deliveries
from tests.chaos.world import supervised
from tests.installation import Installation, installed
from tests.plugin_server import PluginServer, serving
from tests.servers import fresh_database
from tests.waiting import wait_for

TIMES = 2
POINTS = (Point.HOOK_CLAIMED, Point.HOOK_ANSWERED, Point.HOOK_FINISHING, Point.HOOK_FINISHED)
DUE = 400
IN_HAND = 40
"""More than one worker has claimed at a time of one subscriber."""
SETTINGS = {
    "PIPELINE_CLUSTER_DRIVER": "null",
    "PIPELINE_LEASE_SECONDS": "2",
    "PIPELINE_WAKE_AFTER_SECONDS": "1",
    "PIPELINE_HOOK_RETRY_MIN_SECONDS": "0.2",
    # What a killed worker held of the subscriber's calls does not keep the others from calling it.
    "PIPELINE_HOOK_CONCURRENCY": "1000",
    "PIPELINE_FAILPOINT": ",".join(f"{point}@succeeded:exit:{TIMES}" for point in POINTS),
}


@pytest.fixture
def url(postgres_url: str, migrated_database: str) -> Iterator[str]:
    with fresh_database(postgres_url, template=migrated_database) as url:
        yield url


@pytest.fixture
def plugins() -> Iterator[PluginServer]:
    with serving() as server:
        yield server


@pytest.fixture
def service(tmp_path: Path, url: str, redis_url: str) -> Iterator[Installation]:
    with installed(tmp_path, url, redis_url, **SETTINGS) as service, supervised(service):
        first = service.services["hooks1"]
        words = [word.replace("hooks1@", "hooks2@") for word in first.argv]
        service.services["hooks2"] = replace(first, name="hooks2", argv=words)
        service.start("api")
        wait_for(lambda: service.ask("GET", "/readyz").status_code == 200, "the API")
        yield service


def test_of_what_killed_workers_had_in_hand_nothing_is_lost_and_what_was_written_is_not_sent_again(
    service: Installation, plugins: PluginServer, url: str
) -> None:
    local, late = threading.local(), []
    calls: dict[str, list[int]] = defaultdict(list)

    def hook(event: dict[str, Any]) -> str:
        job, sequence = event["id"], event["sequence"]
        if not hasattr(local, "connection"):
            local.connection = psycopg2.connect(url)
            local.connection.autocommit = True
        with local.connection.cursor() as cursor:
            # This may run long after the attempt began: what counts is the time that the request has.
            cursor.execute(
                "SELECT count(*) FROM deliveries WHERE subject_id = %s AND sequence = %s AND finished_at < %s",
                (job, sequence, event["currentTime"]),
            )
            if cursor.fetchone() != (0,):
                late.append((job, sequence))
        calls[job].append(sequence)
        return "OK"

    address = plugins.plugin("/hook", hook)
    service.register("many", {"pluginType": "LifeHook", "callAddress": address, "timeoutSeconds": 2})
    jobs = insert_due_deliveries(url, "LifeHook.many.tests", DUE)
    service.start("hooks1", "hooks2", "housekeeping", "beat")
    left = "SELECT count(*) FROM deliveries WHERE status = 'waiting'"
    wait_for(
        lambda: not ask_database(url, left),
        "all deliveries",
        progress=lambda: (ask_database(url, left), len(list(service.faults.iterdir()))),
    )
    crashes = Counter(marker.name.partition("@")[0] for marker in service.faults.iterdir())
    assert crashes == dict.fromkeys(POINTS, TIMES)
    with closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT DISTINCT status FROM deliveries")
        assert cursor.fetchall() == [("delivered",)]
    assert not late, "what is written down is not sent again"
    assert calls.keys() == set(jobs)
    assert all(sequences == sorted(sequences) and set(sequences) == {1, 2} for sequences in calls.values())
    repeated = sum(len(sequences) - 2 for sequences in calls.values())
    assert repeated <= IN_HAND * crashes.total()
