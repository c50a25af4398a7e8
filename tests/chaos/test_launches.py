"""A stage worker that is killed while it launches many jobs together: at each point, the outcomes half written among them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg2
import pytest

from tests.builders import container, role, taskset_of
from tests.chaos.test_crash_points import STAGE_POINTS, one_step_at_a_time
from tests.chaos.world import supervised
from tests.installation import Installation, installed
from tests.servers import fresh_database
from tests.waiting import wait_for

JOBS = 60
AT = {point: f"job-{10 + 12 * number}" for number, point in enumerate(STAGE_POINTS)}
"""At which job the process ends at each point: one in the midst of those that are launched together."""
SETTINGS = {
    "PIPELINE_CLUSTER_DRIVER": "null",
    "PIPELINE_LEASE_SECONDS": "2",
    "PIPELINE_WAKE_AFTER_SECONDS": "1",
    "PIPELINE_FAILPOINT": ",".join(f"{point}@launch@{name}:exit" for point, name in AT.items()),
}


@pytest.fixture
def url(postgres_url: str, migrated_database: str) -> Iterator[str]:
    with fresh_database(postgres_url, template=migrated_database) as url:
        yield url


@pytest.fixture
def service(tmp_path: Path, url: str, redis_url: str) -> Iterator[Installation]:
    with installed(tmp_path, url, redis_url, **SETTINGS) as service, supervised(service):
        one_step_at_a_time(service)
        service.start("api")
        wait_for(lambda: service.ask("GET", "/readyz").status_code == 200, "the API")
        yield service


def test_of_jobs_that_are_launched_together_each_is_written_once_and_none_is_lost(
    service: Installation, url: str
) -> None:
    document = taskset_of(role("main", container("true")))
    for number in range(JOBS):
        body = {"userID": "u1", "jobName": f"job-{number}", "jobKind": "TaskSet", "job": document}
        assert service.ask("POST", "/v1/job", body).status_code == 200
    connection = psycopg2.connect(url)
    connection.autocommit = True

    def ended() -> int:
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM jobs WHERE state = 'succeeded'")
            (number,) = cursor.fetchone() or (0,)
        return int(number)

    service.start("stages1", "housekeeping", "beat")
    wait_for(lambda: ended() == JOBS, "all jobs to end", progress=lambda: (ended(), len([*service.faults.iterdir()])))
    assert {path.name.partition("#")[0] for path in service.faults.iterdir()} == {
        f"{point}@launch@{name}" for point, name in AT.items()
    }
    with connection.cursor() as cursor:
        cursor.execute("SELECT array_agg(state ORDER BY sequence) FROM events GROUP BY job_id")
        histories = [states for (states,) in cursor.fetchall()]
        cursor.execute("SELECT count(*) FROM steps")
        assert cursor.fetchone() == (0,)
    assert histories == [["waiting", "running", "succeeded"]] * JOBS
    connection.close()
