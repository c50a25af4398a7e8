"""What the containers do when they start and while they go on, run as processes of this machine."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from redis import Redis
from redis.exceptions import AuthenticationError, BusyLoadingError, ConnectionError
from sqlalchemy import text

from pipeline_core.database import migrate
from pipeline_core.database.engine import make_engine
from pipeline_up.embedded import EmbeddedRedis
from pipeline_up.embedded.redis import _program, free_port
from tests.chaos.servers import restartable
from tests.installation import installed
from tests.manifests import KUSTOMIZE, ROOT, documents, of_kind, pod_of
from tests.servers import fresh_database
from tests.waiting import HANG_SECONDS, wait_for

BASE = KUSTOMIZE / "base"
(ALIVE,) = [pod_of(patch)["containers"][0] for patch in documents(BASE / "patches" / "liveness.yaml")]
(DATABASE,) = [pod_of(patch)["initContainers"][0] for patch in documents(BASE / "patches" / "service.yaml")]
(FLOWER,) = [pod_of(one)["containers"][0] for one in of_kind(documents(BASE / "flower.yaml"), "Deployment")]
PROGRAMS = Path(sys.executable).parent
LONG_AGO_SECONDS = 1000
AWAY = "redis://127.0.0.1:1/0"


def run(words: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": f"{PROGRAMS}:/usr/bin:/bin", "PYTHONPATH": str(ROOT), **variables}
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=HANG_SECONDS, check=False)


def probe(kind: str, file: Path, redis_url: str) -> bool:
    words = [word.replace("/tmp/liveness", str(file)) for word in ALIVE[kind]["exec"]["command"]]
    return run(words, PIPELINE_REDIS_URL=redis_url).returncode == 0


def age(file: Path) -> None:
    moment = time.time() - LONG_AGO_SECONDS
    os.utime(file, (moment, moment))


def is_fresh(file: Path) -> bool:
    return file.exists() and time.time() - file.stat().st_mtime < LONG_AGO_SECONDS / 2


def test_probes_look_at_a_file_and_its_age(tmp_path: Path, redis_url: str) -> None:
    file = tmp_path / "alive"
    assert not probe("startupProbe", file, redis_url)
    assert not probe("livenessProbe", file, redis_url)
    file.touch()
    assert probe("startupProbe", file, AWAY)
    assert probe("livenessProbe", file, AWAY)
    age(file)
    assert not probe("livenessProbe", file, redis_url)
    assert probe("livenessProbe", file, AWAY), "it may be waiting for Redis"


@pytest.mark.slow
def test_whoever_serves_nothing_shows_that_it_goes_on_also_after_redis_was_away(
    tmp_path: Path, postgres_url: str, migrated_database: str
) -> None:
    names = ("stages1", "hooks1", "beat", "watcher")
    with (
        restartable(EmbeddedRedis(tmp_path / "redis", durable=False)) as redis,
        fresh_database(postgres_url, template=migrated_database) as url,
        installed(tmp_path, url, redis.url, PIPELINE_CLUSTER_DRIVER="null") as service,
    ):
        files = {name: tmp_path / f"{name}.alive" for name in names}
        for name, file in files.items():
            process = service.services[name]
            environment = {**(process.env or {}), "PIPELINE_LIVENESS_FILE": str(file)}
            service.services[name] = replace(process, env=environment)
        redis.end()
        service.start(*names)
        for name, file in files.items():
            wait_for(lambda file=file: file.exists(), f"{name} to start without Redis")
            age(file)
        redis.start()
        for name, file in files.items():
            wait_for(lambda file=file: is_fresh(file), f"{name} to show that it goes on")
        redis.end()
        wait_for(lambda: "Connection to broker lost" in service.log("stages1"), "a worker to miss Redis")
        for file in files.values():
            age(file)
        redis.start()
        for name, file in files.items():
            wait_for(lambda file=file: is_fresh(file), f"{name} to show that it goes on again")


def test_compose_has_the_fields_of_its_schema_and_no_others(tmp_path: Path) -> None:
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    compose = ROOT / "docker" / "compose.yaml"
    done = run([*check, str(compose)])
    assert done.returncode == 0, done.stdout
    wrong = tmp_path / "compose.yaml"
    wrong.write_text(compose.read_text().replace("read_only:", "readonly:"))
    assert "'readonly' was unexpected" in run([*check, str(wrong)]).stdout


@pytest.fixture
def trial_redis(tmp_path: Path) -> Iterator[Redis]:
    """The Redis of the trial, as its container starts it, on a free port of this machine."""
    (server,) = of_kind(documents(KUSTOMIZE / "servers" / "redis.yaml"), "StatefulSet")
    *shell, script = pod_of(server)["containers"][0]["command"]
    (tmp_path / "valkey-server").symlink_to(_program())
    port = free_port()
    script = script.replace("/data", str(tmp_path)).replace("/tmp/valkey.conf", str(tmp_path / "valkey.conf"))
    script = script.rstrip() + f" --bind 127.0.0.1 --port {port}\n"
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "REDISCLI_AUTH": "secret"}
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen([*shell, script], env=environment, stdout=log, stderr=log)
    try:
        with Redis(port=port, password="secret") as redis:
            wait_for(lambda: _answers(redis), "the trial's Redis")
            yield redis
    finally:
        process.terminate()
        assert process.wait(HANG_SECONDS) == 0, "SIGTERM reaches the server itself"


def _answers(redis: Redis) -> bool:
    try:
        return bool(redis.ping())
    except (ConnectionError, BusyLoadingError):
        return False


def test_the_trial_s_redis_asks_for_its_password_and_keeps_what_waits(trial_redis: Redis) -> None:
    found = {name: trial_redis.config_get(name)[name] for name in ("appendonly", "maxmemory-policy", "maxmemory")}
    assert found == {"appendonly": "yes", "maxmemory-policy": "noeviction", "maxmemory": str(512 * 1024 * 1024)}
    port = trial_redis.connection_pool.connection_kwargs["port"]
    with Redis(port=port) as stranger, pytest.raises(AuthenticationError):
        stranger.ping()


def test_the_trial_s_redis_does_not_start_without_a_password() -> None:
    (server,) = of_kind(documents(KUSTOMIZE / "servers" / "redis.yaml"), "StatefulSet")
    done = run(pod_of(server)["containers"][0]["command"], REDISCLI_AUTH="")
    assert done.returncode == 1
    assert "REDIS_PASSWORD must be set" in done.stderr


def test_without_secrets_of_one_s_own_nothing_starts() -> None:
    empty = {
        line.removesuffix("="): ""
        for line in (BASE / "secrets.env.example").read_text().splitlines()
        if not line.startswith("#")
    }
    done = run(DATABASE["command"], **empty)
    assert done.returncode != 0
    assert "PIPELINE_DATABASE_URL is not set" in done.stderr


def test_the_database_is_given_its_schema_and_a_later_version_s_is_left_alone(empty_database_url: str) -> None:
    for _ in range(2):
        done = run(DATABASE["command"], PIPELINE_DATABASE_URL=empty_database_url)
        assert (done.returncode, done.stderr) == (0, "")
    engine = make_engine(empty_database_url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = 'v9999'"))
    engine.dispose()
    done = run(DATABASE["command"], PIPELINE_DATABASE_URL=empty_database_url)
    assert done.returncode == 0
    assert "a later version" in done.stderr
    assert migrate.revision_of(empty_database_url) == "v9999"


@pytest.mark.parametrize("password", ["", "a,b"])
def test_flower_does_not_start_with_a_password_that_is_none(password: str) -> None:
    done = run(FLOWER["command"], FLOWER_PASSWORD=password)
    assert done.returncode == 1
    assert "FLOWER_PASSWORD must be set" in done.stderr


def test_flower_is_told_its_password_by_the_environment(tmp_path: Path) -> None:
    celery = tmp_path / "celery"
    celery.write_text('#!/bin/sh\necho "$FLOWER_BASIC_AUTH"; echo "$@"\n')
    celery.chmod(0o755)
    done = run(FLOWER["command"], FLOWER_PASSWORD="p 4", PATH=f"{tmp_path}:/usr/bin:/bin")
    auth, words = done.stdout.splitlines()
    assert auth == "admin:p 4"
    assert words.startswith("-A workers.app flower --address=0.0.0.0 --port=5555")
    assert "p 4" not in words
