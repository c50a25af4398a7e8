"""`pipeline doctor` against a real installation: it finds each thing that is wrong, and nothing on one that is right."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from redis import Redis
from sqlalchemy.engine import make_url

from pipeline_core.database.migrate import upgrade
from pipeline_core.stages.names import STAGES, Stage
from pipeline_up.embedded import EmbeddedPostgres, EmbeddedRedis
from tests.builders import taskset
from tests.installation import Installation, installed
from tests.servers import fresh_database
from tests.waiting import HANG_SECONDS, wait_for
from workers import processes
from workers.names import queues, stage_queue

PROGRAM = "from pipeline_cli import main; main(prog_name='pipeline')"
AN_HOUR_UP = """
CREATE VIEW public.pg_stat_activity AS
    SELECT datname, application_name, pid, backend_start - interval '1 hour' AS backend_start FROM pg_catalog.pg_stat_activity;
"""
CLOCK_AHEAD = """
CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql
    AS 'SELECT pg_catalog.clock_timestamp() + interval ''1 hour'''
"""
CELERY = "Metadata-Version: 2.1\nName: celery\nVersion: 4.4.0\n"


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The URLs of a database and a Redis that lose nothing, for this module alone."""
    directory = tmp_path_factory.mktemp("servers")
    with EmbeddedPostgres(directory / "postgres") as postgres, EmbeddedRedis(directory / "redis") as redis:
        yield postgres.url, redis.url


@pytest.fixture(scope="module")
def service(servers: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """An installation that is right; whoever makes something wrong of it mends it again."""
    postgres_url, redis_url = servers
    with fresh_database(postgres_url) as database_url:
        upgrade(database_url)
        variables = {
            "PIPELINE_CLUSTER_DRIVER": "null",
            "PIPELINE_DATABASE_CONNECTIONS": "8",
            "PIPELINE_BREAKER_FAILURES": "2",
            "PIPELINE_HOOK_RETRY_MIN_SECONDS": "0.1",
        }
        with installed(tmp_path_factory.mktemp("doctor"), database_url, redis_url, **variables) as installation:
            yield installation


def doctor(service: Installation, *words: str, **changed: str) -> tuple[int, str]:
    """The exit code of `pipeline doctor` in the environment of the service's processes, and what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "doctor", *words],
        env={**service.environment, **changed},
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert not done.stderr or "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout


def findings(service: Installation, **changed: str) -> list[dict[str, Any]]:
    """What it finds, having checked that its exit code says so."""
    code, printed = doctor(service, "--json", **changed)
    found: list[dict[str, Any]] = json.loads(printed)["findings"]
    assert code == (1 if found else 0)
    return found


def the_only(service: Installation, **changed: str) -> dict[str, Any]:
    """The one thing that it finds."""
    found = findings(service, **changed)
    assert len(found) == 1, found
    return found[0]


def execute(url: str, *statements: str) -> None:
    with closing(psycopg2.connect(url, options="-c default_transaction_read_only=off")) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)


@contextmanager
def altered(service: Installation, change: str, back: str) -> Iterator[None]:
    """The service's database with a change, until the block ends."""
    url = service.environment["PIPELINE_DATABASE_URL"]
    name = str(make_url(url).database)
    execute(url, f"ALTER DATABASE {name} {change}")
    try:
        yield
    finally:
        execute(url, f"ALTER DATABASE {name} {back}")


@contextmanager
def shadowed(service: Installation, create: str, drop: str) -> Iterator[None]:
    """The service's database with an object of ours before one of PostgreSQL's own, for connections that are opened meanwhile."""
    url = service.environment["PIPELINE_DATABASE_URL"]
    execute(url, create)
    try:
        with altered(service, "SET search_path = public, pg_catalog", "RESET search_path"):
            yield
    finally:
        execute(url, drop)


def an_hour_up(service: Installation) -> Any:
    return shadowed(service, AN_HOUR_UP, "DROP VIEW public.pg_stat_activity")


def age(service: Installation, heartbeat: str) -> None:
    """Let this heartbeat be ten minutes old."""
    statement = f"UPDATE heartbeats SET at = at - interval '10 minutes' WHERE name = '{heartbeat}'"
    execute(service.environment["PIPELINE_DATABASE_URL"], statement)


def wait_for_probes(service: Installation) -> None:
    def all_arrived() -> bool:
        status = service.get("/v1/status")
        return {one["queue"] for one in status["queueProbes"] if one["ageSeconds"] < 60} == set(queues())

    wait_for(all_arrived, "a probe through every queue")


def test_right_after_a_start_nothing_is_wrong_and_nothing_later(service: Installation) -> None:
    first = the_only(service)
    assert first["check"] == "processes"
    service.start()
    url = service.environment["PIPELINE_DATABASE_URL"]

    def connected() -> bool:
        with closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
            cursor.execute(
                "SELECT 1 FROM pg_stat_activity WHERE application_name = 'pipeline' AND datname = current_database()"
            )
            return cursor.fetchone() is not None

    wait_for(connected, "a connection of the service")
    assert findings(service) == []
    wait_for_probes(service)
    with an_hour_up(service):
        assert findings(service) == []
        code, printed = doctor(service)
    assert (code, printed.splitlines()[-1]) == (0, "nothing is wrong")
    assert printed.startswith("pipeline ")


WRONG_VARIABLES: dict[str, tuple[dict[str, str], str, str]] = {
    "a name that is no setting": ({"PIPELINE_REDIS_URI": "redis://x"}, "settings", "set PIPELINE_REDIS_URL if"),
    "an invalid value": ({"PIPELINE_LEASE_SECONDS": "soon"}, "settings", "PIPELINE_LEASE_SECONDS"),
    "logs kept longer than jobs": ({"PIPELINE_LOG_DAYS": "400"}, "settings", "PIPELINE_RETENTION_DAYS"),
    "settings of another driver": ({"PIPELINE_KUBE_CONTEXT": "there"}, "settings", "the driver kubernetes alone"),
    "a hook that takes all places": ({"PIPELINE_HOOK_CONCURRENCY": "32"}, "settings", "less than 32"),
    "a data directory below a file": (
        {"PIPELINE_CLUSTER_DRIVER": "local", "PIPELINE_DATA_DIR": f"{sys.executable}/data"},
        "disk",
        "is no directory",
    ),
    "more connections than there are": ({"PIPELINE_DATABASE_CONNECTIONS": "100"}, "connections", "max_connections"),
    "another secret key": (
        {"PIPELINE_SECRET_KEY": base64.urlsafe_b64encode(b"x" * 32).decode()},
        "secret-key",
        "1 stored secrets",
    ),
    "a kubeconfig that is not there": (
        {"PIPELINE_CLUSTER_DRIVER": "kubernetes", "PIPELINE_KUBECONFIG": "/nowhere"},
        "cluster",
        "PIPELINE_KUBECONFIG (/nowhere) cannot be read",
    ),
    "no password for the admin": ({"PIPELINE_DEVELOPMENT": "0"}, "admin-password", "PIPELINE_ADMIN_PASSWORD"),
    "everybody's password": ({"PIPELINE_PUBLIC_URL": "https://jobs.example"}, "admin-password", "https://jobs.example"),
}


@pytest.mark.parametrize("name", WRONG_VARIABLES)
def test_a_wrong_setting_is_found(service: Installation, name: str) -> None:
    variables, check, text = WRONG_VARIABLES[name]
    if check == "secret-key":
        plugin = {"pluginType": "LifeHook", "callAddress": "http://127.0.0.1:9/"}
        feature = {"name": "secretive", "author": "a", "plugins": [plugin], "authorization": "Bearer hidden"}
        service.post("/v1/features", feature)
    only = the_only(service, **variables)
    assert only["check"] == check
    assert text in " ".join(only.values())


@pytest.mark.parametrize(
    ("variable", "check"), [("PIPELINE_DATABASE_URL", "database"), ("PIPELINE_REDIS_URL", "redis")]
)
def test_a_server_that_does_not_let_the_service_in_is_found(service: Installation, variable: str, check: str) -> None:
    url = service.environment[variable]
    parts = make_url(url)
    assert parts.password
    only = the_only(service, **{variable: url.replace(str(parts.password), "wrong")})
    assert only["check"] == check
    assert "password" in only["wrong"]
    assert str(parts.password) not in json.dumps(only)


def test_an_empty_database_is_found(service: Installation, servers: tuple[str, str]) -> None:
    with fresh_database(servers[0]) as url:
        only = the_only(service, PIPELINE_DATABASE_URL=url)
    assert (only["check"], only["advice"]) == ("migrations", "run `pipeline database upgrade`")


def test_a_library_of_another_version_is_found(service: Installation, tmp_path: Path) -> None:
    metadata = tmp_path / "celery-4.4.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(CELERY)
    path = service.environment.get("PYTHONPATH", "")
    only = the_only(service, PYTHONPATH=f"{tmp_path}:{path}" if path else str(tmp_path))
    assert (only["check"], only["where"]) == ("libraries", "celery")
    assert "it is 4.4.0" in only["wrong"]


@pytest.mark.parametrize(
    ("change", "back", "check"),
    [
        ("SET synchronous_commit = off", "RESET synchronous_commit", "durability"),
        ("SET default_transaction_read_only = on", "RESET default_transaction_read_only", "read-only"),
        ("CONNECTION LIMIT 60", "CONNECTION LIMIT -1", "connections"),
    ],
)
def test_a_wrong_database_is_found(service: Installation, change: str, back: str, check: str) -> None:
    with altered(service, change, back):
        only = the_only(service)
    assert only["check"] == check


def test_a_clock_that_is_ahead_is_found(service: Installation) -> None:
    with shadowed(service, CLOCK_AHEAD, "DROP FUNCTION public.clock_timestamp()"):
        only = the_only(service)
    assert (only["check"], only["where"]) == ("clocks", "PostgreSQL")
    assert " s ahead of this host's" in only["wrong"]


@pytest.mark.parametrize(
    ("name", "wrong", "right", "check"),
    [("maxmemory-policy", "allkeys-lru", "noeviction", "eviction"), ("maxmemory", "1100000", "0", "redis-memory")],
)
def test_a_wrong_redis_is_found(service: Installation, name: str, wrong: str, right: str, check: str) -> None:
    with closing(Redis.from_url(service.environment["PIPELINE_REDIS_URL"])) as redis:
        redis.config_set(name, wrong)
        try:
            only = the_only(service)
        finally:
            redis.config_set(name, right)
    assert only["check"] == check


def test_a_beat_that_is_absent_is_found(service: Installation) -> None:
    wait_for_probes(service)
    service.kill("beat")
    age(service, "beat")
    with an_hour_up(service):
        only = the_only(service)
    assert (only["where"], only["docs"].split("#")[1]) == ("beat", "pipelinebeatheartbeatold")
    service.start("beat")


def test_a_stage_without_a_worker_is_found(service: Installation) -> None:
    wait_for_probes(service)
    others = [stage_queue(stage) for stage in STAGES if stage is not Stage.GATES]
    for name in ("stages1", "stages2"):
        service.kill(name)
        execute(
            service.environment["PIPELINE_DATABASE_URL"], f"DELETE FROM heartbeats WHERE name LIKE 'worker/{name}@%'"
        )
    whole = service.services["stages1"]
    service.services["stages1"] = type(whole)(
        name="stages1", argv=processes.worker("stages", name="stages1", queues=others), env=whole.env
    )
    service.start("stages1")
    age(service, f"queue-probe/{stage_queue(Stage.GATES)}")
    wait_for(lambda: [one for one in service.get("/v1/status")["workers"] if "stages1" in one["worker"]], "the worker")
    with an_hour_up(service):
        only = the_only(service)
    assert "stages.gates" in only["wrong"]
    assert only["docs"].endswith("#pipelinequeueprobeold")
    service.kill("stages1")
    service.services["stages1"] = whole
    service.start("stages1", "stages2")


def test_a_subscriber_that_is_away_is_found(service: Installation) -> None:
    # Nothing listens on port 9.
    service.register("bell", {"pluginType": "LifeHook", "callAddress": "http://127.0.0.1:9/"})
    service.submit(taskset())
    wait_for(
        lambda: any("is unavailable" in one for one in service.get("/v1/status")["problems"]), "the circuit to be open"
    )
    only = the_only(service)
    assert (only["where"], only["docs"].split("#")[1]) == ("a plugin", "pipelinepluginaway")
    assert "LifeHook.bell" in only["wrong"]
