"""A new version: its migration runs over live rows, and its processes replace the old ones one after another."""

from __future__ import annotations

import signal
import threading
from collections import Counter
from contextlib import closing
from pathlib import Path

import psycopg2

from pipeline_core.database import migrate, revisions
from tests.builders import taskset
from tests.chaos.test_scale import ask_database, insert_jobs
from tests.installation import installed
from tests.servers import fresh_database
from tests.waiting import HANG_SECONDS, wait_for

SERVICES = ("api", "stages1", "hooks1", "flows", "housekeeping", "beat", "watcher")
JOBS_WHILE_RESTARTING = 40
LATER = Path(__file__).parent / "migrations"
"""What a later version adds to the schema. The processes of this one go on with it until they are replaced."""


def test_a_migration_takes_live_rows_along(tmp_path: Path, postgres_url: str, redis_url: str) -> None:
    with fresh_database(postgres_url) as url:
        migrate.upgrade(url)
        due = insert_jobs(url, 20, state="waiting", stage="launch", sequence=1)
        insert_jobs(url, 20, state="suspended", stage="gates", sequence=2, suspended_by="AccessGate.a.b")
        with closing(psycopg2.connect(url)) as connection, connection, connection.cursor() as cursor:
            for job_id in due:
                cursor.execute(
                    "INSERT INTO steps (job_id, epoch, stage, pending_since, due_at, publish_count, claim_count, crash_count,"
                    " unreachable)"
                    " VALUES (%s, 1, 'launch', now(), now(), 0, 0, 0, '{}')",
                    (job_id,),
                )
        migrate.upgrade(url, later=LATER)
        assert revisions.is_newer(migrate.revision_of(url))
        with installed(tmp_path, url, redis_url, PIPELINE_CLUSTER_DRIVER="null") as service:
            service.start(*SERVICES)
            ended = "SELECT count(*) FROM jobs WHERE state = 'succeeded'"
            wait_for(lambda: ask_database(url, ended) == len(due), "the jobs from before the migration to succeed")
            assert ask_database(url, "SELECT count(*) FROM jobs WHERE state = 'suspended'") == 20
            assert ask_database(url, "SELECT count(*) FROM jobs WHERE priority = 1") == 40, "it filled every row"


def test_processes_that_are_replaced_one_after_the_other_lose_nothing(
    tmp_path: Path, postgres_url: str, migrated_database: str, redis_url: str
) -> None:
    with (
        fresh_database(postgres_url, template=migrated_database) as url,
        installed(tmp_path, url, redis_url, PIPELINE_LEASE_SECONDS="2", PIPELINE_WAKE_AFTER_SECONDS="2") as service,
    ):
        service.start(*SERVICES)
        wait_for(lambda: service.ask("GET", "/readyz").status_code == 200, "the API")
        jobs: list[str] = []
        replaced = threading.Event()

        def submit_all_along() -> None:
            while not replaced.is_set() or len(jobs) < JOBS_WHILE_RESTARTING:
                jobs.append(service.submit(taskset("true"), name=f"job-{len(jobs)}"))

        client = threading.Thread(target=submit_all_along)
        client.start()
        try:
            for name in SERVICES:
                old = service.processes.pop(name)
                old.send_signal(signal.SIGTERM)
                assert old.wait(HANG_SECONDS) is not None
                service.start(name)
        finally:
            replaced.set()
            client.join(HANG_SECONDS)
        assert not client.is_alive(), "every submission was answered with 200"
        ended = "SELECT count(*) FROM jobs WHERE finished_at IS NOT NULL"
        wait_for(
            lambda: ask_database(url, ended) == len(jobs), "all jobs to end", progress=lambda: ask_database(url, ended)
        )
        assert Counter(service.job(job_id)["state"] for job_id in jobs) == {"succeeded": len(jobs)}
        assert ask_database(url, "SELECT count(*) FROM events WHERE state = 'running'") == len(jobs)
