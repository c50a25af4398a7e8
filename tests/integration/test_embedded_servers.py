from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest
import redis
from kombu import Connection

from pipeline_core.errors import ConfigurationError
from pipeline_up.embedded import EmbeddedPostgres, EmbeddedRedis, EmbeddedServer, ServerFailed
from tests.servers import own_process_ids
from tests.waiting import HANG_SECONDS, wait_for

SERVERS = [EmbeddedPostgres, EmbeddedRedis]

ABANDON = """
import os, sys
from pathlib import Path
from pipeline_up.embedded import EmbeddedPostgres, EmbeddedRedis
server = {kind}(Path(sys.argv[1]), durable=False)
# The server must outlive this process.
type(server).command = property(lambda self: self.account.command(self.argv, reaches=[self.directory]))
print(server.start(), flush=True)
os.kill(os.getpid(), 9)
"""


def query(url: str, text: str) -> list[tuple[object, ...]]:
    with closing(psycopg2.connect(url)) as connection, connection, connection.cursor() as cursor:
        cursor.execute(text)
        return cursor.fetchall() if cursor.description else []


def write(server: EmbeddedServer) -> None:
    if isinstance(server, EmbeddedPostgres):
        query(server.url, "CREATE TABLE kept AS SELECT 'here' AS word")
    else:
        redis.Redis.from_url(server.url).set("kept", "here")


def read(server: EmbeddedServer) -> str:
    if isinstance(server, EmbeddedPostgres):
        return str(query(server.url, "SELECT word FROM kept")[0][0])
    return str(redis.Redis.from_url(server.url, decode_responses=True).get("kept"))


@pytest.mark.parametrize("kind", SERVERS)
def test_data_survives_stop_and_start(kind: type[EmbeddedServer], tmp_path: Path) -> None:
    with kind(tmp_path / "server") as server:
        write(server)
    with kind(tmp_path / "server") as server:
        assert read(server) == "here"


@pytest.mark.parametrize("kind", SERVERS)
def test_data_survives_kill_9_of_the_server(kind: type[EmbeddedServer], tmp_path: Path) -> None:
    with kind(tmp_path / "server") as server:
        write(server)
        if kind is EmbeddedRedis:
            redis.Redis.from_url(server.url).execute_command("WAITAOF", 1, 0, 5000)
        for pid in own_process_ids(tmp_path):
            os.kill(pid, signal.SIGKILL)
    with kind(tmp_path / "server") as server:
        assert read(server) == "here"


@pytest.mark.parametrize("kind", SERVERS)
def test_nothing_runs_after_stop(kind: type[EmbeddedServer], tmp_path: Path) -> None:
    with kind(tmp_path / "server", durable=False):
        assert own_process_ids(tmp_path)
    assert own_process_ids(tmp_path) == []


@pytest.mark.parametrize("kind", SERVERS)
def test_a_server_left_behind_is_ended_by_the_next_start(kind: type[EmbeddedServer], tmp_path: Path) -> None:
    abandon = [sys.executable, "-c", ABANDON.format(kind=kind.__name__), str(tmp_path / "server")]
    subprocess.run(abandon, check=False, stdout=subprocess.DEVNULL)
    (orphan,) = own_process_ids(tmp_path)
    with kind(tmp_path / "server", durable=False):
        assert orphan not in own_process_ids(tmp_path)
        assert len(own_process_ids(tmp_path)) == 1


@pytest.mark.parametrize("kind", SERVERS)
def test_a_server_ends_with_the_process_that_started_it(kind: type[EmbeddedServer], tmp_path: Path) -> None:
    start = (
        "import os, sys; from pathlib import Path; from pipeline_up.embedded import *\n"
        f"{kind.__name__}(Path(sys.argv[1]), durable=False).start(); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", start, str(tmp_path / "server")], check=False)
    wait_for(lambda: own_process_ids(tmp_path) == [])


@pytest.mark.parametrize("kind", SERVERS)
def test_another_process_with_a_like_command_line_is_left_alone(kind: type[EmbeddedServer], tmp_path: Path) -> None:
    server = kind(tmp_path / "server", durable=False)
    with subprocess.Popen([sys.executable, "-c", "input()", *server.identity], stdin=subprocess.PIPE) as bystander:
        with server:
            assert bystander.poll() is None
        bystander.communicate(b"\n")
    assert bystander.returncode == 0


def test_kombu_connects_to_redis_with_its_password(redis_url: str) -> None:
    with Connection(redis_url) as connection:
        queue = connection.SimpleQueue("embedded")
        queue.put({"a": 1})
        message = queue.get(timeout=HANG_SECONDS)
        message.ack()
        queue.close()
    assert message.payload == {"a": 1}


def test_redis_answers_nobody_without_the_password(redis_url: str) -> None:
    bare = redis_url.split("@")[1]
    with pytest.raises(redis.AuthenticationError):
        redis.Redis.from_url(f"redis://{bare}").ping()


def test_redis_keeps_all_keys_and_writes_them_to_disk(tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path / "server") as server:
        settings = redis.Redis.from_url(server.url, decode_responses=True).config_get("*")
    assert settings["maxmemory-policy"] == "noeviction"
    assert (settings["appendonly"], settings["appendfsync"]) == ("yes", "everysec")


def test_postgres_is_durable_unless_told_otherwise(tmp_path: Path) -> None:
    with EmbeddedPostgres(tmp_path / "server") as server:
        assert query(server.url, "SHOW fsync") == [("on",)]
        assert query(server.url, "SHOW max_connections") == [("200",)]


def test_the_service_is_not_superuser(postgres_url: str) -> None:
    assert query(postgres_url, "SELECT rolsuper, rolcreatedb FROM pg_roles WHERE rolname = current_user") == [
        (False, True)
    ]


def test_postgres_answers_nobody_without_the_password(postgres_url: str) -> None:
    scheme, rest = postgres_url.split("//pipeline:")
    with pytest.raises(psycopg2.OperationalError, match="password"):
        psycopg2.connect(f"{scheme}//pipeline:guess@{rest.split('@')[1]}")


def test_the_passwords_can_be_read_by_the_owner_alone(tmp_path: Path) -> None:
    for kind in SERVERS:
        with kind(tmp_path / kind.name, durable=False) as server:
            assert stat.S_IMODE((server.directory / "password").stat().st_mode) == 0o600
            assert stat.S_IMODE(server.directory.stat().st_mode) == 0o700


def test_a_directory_with_a_long_path_gets_a_socket_elsewhere_that_stop_removes(tmp_path: Path) -> None:
    with EmbeddedPostgres(tmp_path / ("long-" * 30) / "a 'quoted' path", durable=False) as server:
        short = Path((server.directory / "socket-directory").read_text())
        assert query(server.url, "SELECT 1") == [(1,)]
        assert stat.S_IMODE(short.stat().st_mode) == 0o700
    assert not short.exists()


def test_a_half_made_data_directory_is_made_anew(tmp_path: Path) -> None:
    server = EmbeddedPostgres(tmp_path / "server", durable=False)
    (server.directory / "data.new").mkdir(parents=True)
    (server.directory / "data.new" / "PG_VERSION").write_text("18")
    with server:
        assert query(server.url, "SELECT 1") == [(1,)]


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    with EmbeddedPostgres(tmp_path / "server", durable=False) as server:
        pass
    (server.directory / "data" / "PG_VERSION").write_text("9.1\n")
    with pytest.raises(ServerFailed, match=r"9\.1"):
        server.start()
    assert own_process_ids(tmp_path) == []


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="file/redis cannot be used for redis: Not a directory"):
        EmbeddedRedis(tmp_path / "file" / "redis").start()


def test_a_fresh_database_has_nothing_in_it(empty_database_url: str) -> None:
    assert query(empty_database_url, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == [(0,)]
