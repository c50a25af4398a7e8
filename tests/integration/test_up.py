from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest

from pipeline_up import os_processes, running
from tests.servers import own_process_ids
from tests.waiting import HANG_SECONDS, wait_for


class Up:
    """One run of `pipeline up` with stub services, and what it printed."""

    def __init__(self, data_dir: Path, *options: str, **environment: str) -> None:
        self.data_dir = data_dir
        self.printed = data_dir.with_name("printed")
        command = [sys.executable, "-m", "tests.integration.stub_up", "--port=0", f"--data-dir={data_dir}", *options]
        with self.printed.open("w") as output:
            self.process = subprocess.Popen(
                command, stdout=output, stderr=output, env={**os.environ, **environment}, start_new_session=True
            )

    def wait_for(self, pattern: str) -> str:
        def look() -> re.Match[str] | None:
            ended = self.process.poll() is not None
            found = re.search(pattern, self.printed.read_text())
            assert found or not ended, self.printed.read_text()
            return found

        found = wait_for(look, pattern, progress=self.printed.read_text)
        return found[found.lastindex or 0]

    @property
    def url(self) -> str:
        return self.wait_for(r"answers at (http://\S+)\. ")

    def variable(self, name: str) -> str:
        """What the API's environment says, asked of the API."""
        with urllib.request.urlopen(f"{self.url}/{name}", timeout=HANG_SECONDS) as answer:
            return str(answer.read().decode())

    def pid(self, name: str) -> int:
        record = json.loads((self.data_dir / "run" / "processes.json").read_text())
        return int(record["processes"][name]["pid"])

    def stop(self, *signals: signal.Signals) -> int:
        for number in signals:
            self.process.send_signal(number)
        return self.process.wait(HANG_SECONDS)


@pytest.fixture
def data_dir(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "data"
    for pid in own_process_ids(tmp_path):
        os.kill(pid, signal.SIGKILL)


def statement(url: str, text: str) -> list[tuple[object, ...]]:
    with closing(psycopg2.connect(url)) as connection, connection, connection.cursor() as cursor:
        cursor.execute(text)
        return cursor.fetchall() if cursor.description else []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_everything_and_the_servers_last(data_dir: Path, number: signal.Signals) -> None:
    run = Up(data_dir)
    assert run.url
    assert run.stop(number) == 0
    assert own_process_ids(data_dir) == []
    ended = re.findall(r"○ (\w+)", run.printed.read_text())
    assert set(ended[:2]) == {"api", "stubborn"}
    assert set(ended[2:]) == {"postgres", "redis"}


def test_the_service_is_told_of_the_servers_and_of_its_directory(data_dir: Path) -> None:
    run = Up(data_dir, PIPELINE_SECRET_KEY="", PIPELINE_DEVELOPMENT="")
    assert statement(run.variable("PIPELINE_DATABASE_URL"), "SELECT 1") == [(1,)]
    assert run.variable("PIPELINE_REDIS_URL").startswith("redis://:")
    assert run.variable("PIPELINE_SECRET_KEY") == (data_dir / "secret.key").read_text()
    assert run.variable("PIPELINE_DATA_DIR") == str(data_dir)
    run.stop(signal.SIGTERM)


def test_a_command_beside_it_finds_the_environment_of_its_processes(data_dir: Path) -> None:
    run = Up(data_dir)
    url = run.variable("PIPELINE_DATABASE_URL")
    assert running.environment(data_dir)["PIPELINE_DATABASE_URL"] == url
    run.stop(signal.SIGTERM)
    assert running.environment(data_dir) == {}


def test_servers_given_by_url_are_not_started(data_dir: Path, empty_database_url: str, redis_url: str) -> None:
    run = Up(data_dir, PIPELINE_DATABASE_URL=empty_database_url, PIPELINE_REDIS_URL=redis_url)
    assert run.variable("PIPELINE_REDIS_URL") == redis_url
    assert not (data_dir / "postgres").exists()
    assert not (data_dir / "redis").exists()
    run.stop(signal.SIGTERM)


def refused(data_dir: Path, *arguments: str, **variables: str) -> tuple[int, str]:
    """The exit code and the words of a start that ends by itself."""
    command = [sys.executable, str(Path(__file__).with_name("stub_up.py")), "--data-dir", str(data_dir), *arguments]
    ended = subprocess.run(
        command, env={**os.environ, **variables}, capture_output=True, text=True, timeout=HANG_SECONDS, check=False
    )
    return ended.returncode, ended.stderr


def test_a_run_that_others_can_reach_needs_an_admin_password_before_it_starts(data_dir: Path) -> None:
    code, words = refused(data_dir, "--host=0.0.0.0", "--port=0")
    assert (code, "PIPELINE_ADMIN_PASSWORD" in words) == (2, True), words
    assert len(words.splitlines()) == 1, "one sentence"


def test_a_redis_that_is_away_is_named(data_dir: Path) -> None:
    code, words = refused(data_dir, "--port=0", PIPELINE_REDIS_URL="redis://127.0.0.1:1/0")
    assert (code, words.startswith("Error: Redis cannot be used: ")) == (1, True), words


def test_a_cluster_that_cannot_be_determined_is_refused_and_nothing_is_started(data_dir: Path) -> None:
    code, words = refused(
        data_dir, "--port=0", PIPELINE_CLUSTER_DRIVER="kubernetes", PIPELINE_KUBECONFIG="/no/such/file"
    )
    assert (code, words) == (
        2,
        "Error: PIPELINE_KUBECONFIG (/no/such/file) cannot be read: No such file or directory\n",
    )
    assert not data_dir.exists()


@pytest.mark.parametrize("key", ["abc", "c2hvcnQ=", "not base64!"])
def test_a_malformed_secret_key_is_named_and_not_shown(data_dir: Path, key: str) -> None:
    code, words = refused(data_dir, PIPELINE_SECRET_KEY=key)
    assert code == 2, words
    assert "PIPELINE_SECRET_KEY: must be keys of 32 bytes" in words
    assert key not in words


def test_an_empty_data_directory_is_refused() -> None:
    code, words = refused(Path(""), "--data-dir", "")
    assert (code, "is empty" in words) == (2, True), words


def test_a_signal_just_after_a_process_died_stops_everything_in_order(data_dir: Path) -> None:
    run = Up(data_dir)
    run.wait_for("answers at")
    # Stopped, the supervisor learns of the death and of the signal at once.
    run.process.send_signal(signal.SIGSTOP)
    os.killpg(run.pid("api"), signal.SIGKILL)
    run.process.send_signal(signal.SIGTERM)
    run.process.send_signal(signal.SIGCONT)
    assert run.process.wait(HANG_SECONDS) == 0, run.printed.read_text()


def test_data_survives_kill_9_of_everything_and_what_was_left_is_reaped(data_dir: Path) -> None:
    run = Up(data_dir)
    statement(run.variable("PIPELINE_DATABASE_URL"), "CREATE TABLE kept AS SELECT 1 AS number")
    stubborn = run.pid("stubborn")
    run.process.kill()
    run.process.wait()
    left = [process for process in os_processes.all_processes() if process.group == stubborn and process.alive]
    assert len(left) == 2, "the stubborn worker and its child outlive the supervisor"

    again = Up(data_dir)
    assert statement(again.variable("PIPELINE_DATABASE_URL"), "SELECT number FROM kept") == [(1,)]
    assert "Ended what an earlier run left behind" in again.printed.read_text()
    assert not any(process.alive for process in left)
    assert again.stop(signal.SIGTERM) == 0


def test_a_child_whose_leader_is_gone_is_reaped_too(data_dir: Path) -> None:
    run = Up(data_dir)
    assert run.url
    stubborn = run.pid("stubborn")
    run.process.kill()
    run.process.wait()
    os.kill(stubborn, signal.SIGKILL)
    (child,) = [one for one in os_processes.all_processes() if one.group == stubborn and one.pid != stubborn]
    again = Up(data_dir)
    assert again.url
    assert not child.alive
    again.stop(signal.SIGTERM)


@pytest.mark.parametrize("name", ["api", "postgres", "redis", "stubborn"])
def test_a_process_that_dies_is_started_again(data_dir: Path, name: str) -> None:
    run = Up(data_dir)
    assert run.url
    dead = run.pid(name)
    os.kill(dead, signal.SIGKILL)
    run.wait_for(rf"● {name} +ended by SIGKILL; again in 0.5 s[^●]*(?:●[^●]*)*● {name} +ready")
    assert run.pid(name) != dead
    assert not any(process.group == dead and process.alive for process in os_processes.all_processes())
    assert statement(run.variable("PIPELINE_DATABASE_URL"), "SELECT 1") == [(1,)]
    run.stop(signal.SIGTERM)


@pytest.mark.parametrize("name", ["postgres", "redis"])
def test_a_server_that_somebody_asks_to_stop_is_started_again_although_it_has_clients(
    data_dir: Path, name: str
) -> None:
    run = Up(data_dir)
    assert run.url
    with closing(psycopg2.connect(run.variable("PIPELINE_DATABASE_URL"))):
        os.kill(run.pid(name), signal.SIGTERM)
        run.wait_for(rf"● {name} +ended with code 0; again in 0.5 s[^●]*(?:●[^●]*)*● {name} +ready")
    assert statement(run.variable("PIPELINE_DATABASE_URL"), "SELECT 1") == [(1,)]
    run.stop(signal.SIGTERM)


def test_a_second_signal_hastens_the_end(data_dir: Path) -> None:
    run = Up(data_dir, STUB_STOP_SECONDS=str(10 * HANG_SECONDS))
    assert run.url
    run.process.send_signal(signal.SIGINT)
    run.wait_for("○ api")
    assert run.stop(signal.SIGINT) == 0
    assert "○ stubborn      killed" in run.printed.read_text()
    assert own_process_ids(data_dir) == []


def test_a_data_directory_in_use_is_refused_and_nothing_is_started(data_dir: Path, tmp_path: Path) -> None:
    run = Up(data_dir)
    assert run.url
    before = own_process_ids(data_dir)
    second = command_line(data_dir, 0)
    assert second.returncode == 2
    assert second.stderr == (
        f"Error: The data directory {data_dir} is in use by another run (process {run.process.pid}).\n"
    )
    assert own_process_ids(data_dir) == before
    run.stop(signal.SIGTERM)


def test_a_port_that_is_taken_is_refused_and_nothing_is_started(data_dir: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = command_line(data_dir, port)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"Error: Cannot listen on 127.0.0.1 port {port}: Address already in use.\n"
    assert not (data_dir / "postgres").exists()


def test_a_data_directory_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = command_line(tmp_path / "file" / "data", 0)
    assert (done.returncode, done.stdout) == (2, "")
    assert "file/data cannot be used: Not a directory" in done.stderr


def test_a_service_that_cannot_start_ends_the_run_with_its_last_words(data_dir: Path) -> None:
    run = Up(data_dir, STUB_FAILS="no such queue")
    assert run.process.wait(HANG_SECONDS) == 1
    assert "stubborn ends as soon as it is started" in run.printed.read_text()
    assert "no such queue" in run.printed.read_text()
    assert own_process_ids(data_dir) == []


def command_line(data_dir: Path, port: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.integration.stub_up", f"--port={port}", f"--data-dir={data_dir}"]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=HANG_SECONDS)
