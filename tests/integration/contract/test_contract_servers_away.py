"""PostgreSQL and Redis are stopped, really, under a service that runs, and started again."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline_core.database.migrate import upgrade
from pipeline_up.embedded import EmbeddedPostgres, EmbeddedRedis
from tests.builders import taskset
from tests.installation import Installation, installed
from tests.waiting import HANG_SECONDS, wait_for

QUICK = {
    "PIPELINE_CLUSTER_DRIVER": "null",
    "PIPELINE_LEASE_SECONDS": "2",
    "PIPELINE_WAKE_AFTER_SECONDS": "2",
}


class Server:
    """An embedded server that comes back where it was."""

    def __init__(self, server: EmbeddedPostgres | EmbeddedRedis) -> None:
        self.server = server
        server.prepare()
        self.start()

    def start(self) -> None:
        with self.server.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                self.server.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        wait_for(self.server.ready, f"{self.server.name} to answer")

    def stop(self) -> None:
        self.process.send_signal(self.server.stop_signal)
        self.process.wait(HANG_SECONDS)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Server]]:
    directory: Path = tmp_path_factory.mktemp("servers")
    made = [
        Server(EmbeddedPostgres(directory / "postgres", durable=False)),
        Server(EmbeddedRedis(directory / "redis", durable=False)),
    ]
    try:
        yield made[0], made[1]
    finally:
        for server in made:
            if server.process.poll() is None:
                server.stop()
            server.server.clean()


@pytest.fixture(scope="module")
def service(servers: tuple[Server, Server], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    postgres, redis = servers
    upgrade(postgres.server.url)
    with installed(tmp_path_factory.mktemp("away"), postgres.server.url, redis.server.url, **QUICK) as installation:
        installation.start()
        wait_for(lambda: installation.ask("GET", "/readyz").status_code == 200, "the API")
        yield installation


def missing(service: Installation) -> list[str]:
    """What the API says that it lacks."""
    answer = service.ask("GET", "/readyz")
    if answer.status_code == 200:
        return []
    assert (answer.status_code, answer.json()["code"]) == (503, "INTERNAL_ERROR")
    assert int(answer.headers["Retry-After"]) > 0
    return sorted(answer.json()["errors"])


def test_a_job_submitted_while_redis_is_away_starts_when_it_is_back(
    service: Installation, servers: tuple[Server, Server]
) -> None:
    _, redis = servers
    redis.stop()
    try:
        assert missing(service) == ["redis"]
        assert service.ask("GET", "/healthz").status_code == 200
        job_ids = [service.submit(taskset()) for _ in range(3)]
        assert [service.job(job_id)["state"] for job_id in job_ids] == ["waiting"] * 3
        stopped = service.submit(taskset())
        service.put(f"/v1/job/stop/{stopped}")
        assert service.job(stopped)["state"] == "stopped"
    finally:
        redis.start()
    wait_for(lambda: missing(service) == [], "readiness")
    for job_id in job_ids:
        service.wait_state(job_id, "succeeded")
    assert service.job(stopped)["state"] == "stopped"


def test_while_postgres_is_away_all_is_refused_and_nothing_half_done(
    service: Installation, servers: tuple[Server, Server]
) -> None:
    postgres, _ = servers
    before = service.get("/v1/job/count")["count"]
    body = {"userID": "ada", "jobName": "n", "jobKind": "TaskSet", "job": taskset()}
    postgres.stop()
    try:
        for method, path, sent in (
            ("POST", "/v1/job", body),
            ("GET", "/v1/job/list", None),
            ("PUT", "/v1/features/turn-on/f", None),
            ("DELETE", "/v1/tokens", {"id": "t"}),
        ):
            answer = service.ask(method, path, sent)
            assert (answer.status_code, answer.json()["code"]) == (503, "INTERNAL_ERROR"), answer.text
            assert int(answer.headers["Retry-After"]) > 0
            assert "postgres" not in answer.text.lower()
        assert "database" in missing(service)
        assert service.ask("GET", "/healthz").status_code == 200
        assert service.ask("GET", "/metrics").status_code == 200
    finally:
        postgres.start()
    wait_for(lambda: missing(service) == [], "readiness")
    assert service.get("/v1/job/count")["count"] == before
    job_id = str(service.post("/v1/job", body)["jobID"])
    service.wait_state(job_id, "succeeded")
