"""Alerts by mail while hook workers are killed and the mail server restarts."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import psycopg2
import pytest
from psycopg2.extras import execute_values

from pipeline_core.common.clock import now
from pipeline_core.common.failpoints import Point
from pipeline_core.common.ids import new_delivery_id, new_run_id
from tests.chaos.test_scale import ask_database
from tests.chaos.world import supervised
from tests.installation import Installation, installed
from tests.mail_server import MailServer, mail_server
from tests.servers import fresh_database
from tests.waiting import wait_for

RUNS = 100
TIMES = 2
POINTS = (Point.HOOK_CLAIMED, Point.HOOK_ANSWERED, Point.HOOK_FINISHING, Point.HOOK_FINISHED)
IN_HAND = 40
SETTINGS = {
    "PIPELINE_CLUSTER_DRIVER": "null",
    "PIPELINE_LEASE_SECONDS": "2",
    "PIPELINE_WAKE_AFTER_SECONDS": "1",
    "PIPELINE_HOOK_RETRY_MIN_SECONDS": "0.2",
    "PIPELINE_HOOK_RETRY_MAX_SECONDS": "1",
    "PIPELINE_BREAKER_OPEN_SECONDS": "0.5",
    "PIPELINE_HOOK_CONCURRENCY": "1000",
    "PIPELINE_ALERT_URL": '{"ops": "mailto:ops@example.org"}',
    "PIPELINE_ALERT_SENDER": "pipeline@example.org",
    "PIPELINE_FAILPOINT": ",".join(f"{point}@failed:exit:{TIMES}" for point in POINTS),
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[MailServer]:
    with mail_server(tmp_path) as server:
        yield server


@pytest.fixture
def url(postgres_url: str, migrated_database: str) -> Iterator[str]:
    with fresh_database(postgres_url, template=migrated_database) as url:
        yield url


@pytest.fixture
def service(tmp_path: Path, url: str, redis_url: str, server: MailServer) -> Iterator[Installation]:
    own = {"PIPELINE_SMTP_URL": server.url, "SSL_CERT_FILE": str(server.certificate)}
    with installed(tmp_path, url, redis_url, **SETTINGS, **own) as service, supervised(service):
        service.start("api")
        wait_for(lambda: service.ask("GET", "/readyz").status_code == 200, "the API")
        yield service


def insert_alerts(url: str) -> dict[str, tuple[str, int]]:
    """Insert two waiting alerts of each of some runs; run and number by the mails' Message-IDs."""
    moment = now() - timedelta(minutes=1)
    alerts = [
        (new_delivery_id(moment), run, number) for run in (new_run_id(moment) for _ in range(RUNS)) for number in (1, 2)
    ]
    with closing(psycopg2.connect(url)) as connection, connection, connection.cursor() as cursor:
        execute_values(
            cursor,
            "INSERT INTO deliveries (id, subject_id, sequence, plugin_key, body, status, attempts, last_answer, created_at,"
            " next_at, give_up_at) VALUES %s",
            [
                (
                    delivery, run, number, "alerts:ops",
                    json.dumps({"run": run, "flow": "nightly", "state": "failed", "reason": "", "users": [], "link": ""}),
                    "waiting", 0, "", moment, moment, now() + timedelta(days=1),
                )
                for delivery, run, number in alerts
            ],
        )  # fmt: skip
    return {f"<{delivery}@example.org>": (run, number) for delivery, run, number in alerts}


def test_no_mail_is_lost_and_none_is_sent_again_after_it_was_written_down(
    service: Installation, server: MailServer, url: str
) -> None:
    alerts = insert_alerts(url)
    service.start("hooks1", "housekeeping", "beat")
    left = "SELECT count(*) FROM deliveries WHERE status = 'waiting'"

    def progress() -> object:
        return ask_database(url, left), len(server.mails), len(list(service.faults.iterdir()))

    wait_for(lambda: len(server.mails) > RUNS // 4, "some mails", progress=progress)
    server.stop()
    service.processes["hooks1"].send_signal(signal.SIGKILL)
    tried = "SELECT count(*) FROM deliveries WHERE status = 'waiting' AND last_answer <> ''"
    wait_for(lambda: ask_database(url, tried), "an attempt without the server", progress=progress)
    server.start()
    wait_for(lambda: not ask_database(url, left), "all alerts", progress=progress)
    crashes = Counter(marker.name.partition("@")[0] for marker in service.faults.iterdir())
    assert crashes == dict.fromkeys(POINTS, TIMES)
    assert ask_database(url, "SELECT count(*) FROM deliveries WHERE status <> 'delivered'") == 0
    assert set(server.ids) == set(alerts)
    # What was under way at a crash or when the server stopped is sent again, by the same Message-ID.
    assert len(server.ids) - len(alerts) <= IN_HAND * (crashes.total() + 2)
    order: dict[str, list[int]] = {}
    for run, number in (alerts[one] for one in server.ids):
        order.setdefault(run, []).append(number)
    assert all(numbers == sorted(numbers) for numbers in order.values()), "the alerts of a run are in order"
