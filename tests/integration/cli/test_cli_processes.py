"""The command line as a process: what signals and closed pipes do to it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pipeline_cli import main
from tests.waiting import HANG_SECONDS

ROOT = Path(__file__).parents[3]
PROCESSES = {"up", "api", "worker", "beat", "watch", "database", "backup", "restore", "doctor"}
"""The commands that are the service, or have its settings and its database before them."""
PROGRAM = "from pipeline_cli import main; main(prog_name='pipeline')"


def start(url: str, *words: str, stdout: Any = subprocess.PIPE) -> subprocess.Popen[str]:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "PIPELINE_URL": url}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *words],
        env=environment,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_ctrl_c_ends_the_watching_and_says_that_the_job_goes_on(stub: Any) -> None:
    waiting = {"sequence": 1, "state": "waiting", "occurredAt": "2025-01-31T12:00:00Z"}
    stub.answer("GET", "/v1/job/events/j01", [waiting])
    stub.answer("GET", "/v1/job/trail/j01", [])
    process = start(stub.url, "wait", "j01")
    assert process.stdout is not None
    assert process.stdout.readline() == "12:00:00.000  waiting\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=HANG_SECONDS)
    assert process.returncode == 130
    assert "j01 goes on" in errors
    assert "Traceback" not in errors


@pytest.mark.parametrize("words", [["jobs"], ["jobs", "-o", "json"], ["logs", "j01"], ["--help"], ["secrets", "key"]])
def test_output_that_cannot_be_written_is_an_error_message(stub: Any, words: list[str]) -> None:
    stub.answer("GET", "/v1/job/list", [])
    stub.raw("GET", "/v1/job/logs/j01", b"line\n", 200, {"Content-Type": "text/plain"})
    with open("/dev/full", "w") as full:
        process = start(stub.url, *words, stdout=full)
        _, errors = process.communicate(timeout=HANG_SECONDS)
    assert process.returncode == 7
    assert errors == "Error: the output cannot be written: No space left on device\n"


def closed_pipe() -> int:
    """The writing end of a pipe that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    return writer


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--help"], 0),
        (["jobs", "--help"], 0),
        (["jobs"], 0),
        (["jobs", "-o", "json"], 0),
        (["logs", "j01"], 0),
        (["flow", "export"], 0),
        (["wait", "j01"], 1),
        (["wait", "j01", "-o", "json"], 1),
        (["config", "j02"], 4),
    ],
)
def test_the_exit_code_does_not_depend_on_the_reader_of_the_output(stub: Any, words: list[str], code: int) -> None:
    stub.answer("GET", "/v1/job/list", [])
    stub.answer("GET", "/v1/flows/export", {})
    stub.raw("GET", "/v1/job/logs/j01", b"line\n", 200, {"Content-Type": "text/plain"})
    stub.answer("GET", "/v1/job/events/j01", [{"sequence": 1, "state": "failed", "occurredAt": "2025-01-31T12:00:00Z"}])
    stub.answer("GET", "/v1/job/trail/j01", [])
    stub.answer("GET", "/v1/job/detail/j01", {"job": {"id": "j01", "state": "failed"}, "tasks": []})
    for stdout in (closed_pipe(), os.open(os.devnull, os.O_WRONLY)):
        process = start(stub.url, *words, stdout=stdout)
        os.close(stdout)
        _, errors = process.communicate(timeout=HANG_SECONDS)
        assert process.returncode == code
        assert "Traceback" not in errors


def test_a_closed_pipe_ends_the_command_quietly(stub: Any) -> None:
    stub.raw("GET", "/v1/job/logs/j01", b"line\n" * 1_000_000, 200, {"Content-Type": "text/plain"})
    process = start(stub.url, "logs", "j01")
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == "line\n"
    process.stdout.close()
    assert process.wait(timeout=HANG_SECONDS) == 0
    assert process.stderr.read() == ""
    process.stderr.close()


def test_help_loads_neither_a_server_nor_an_http_library() -> None:
    program = (
        "import sys; from pipeline_cli import main; main(['--help'], standalone_mode=False);"
        "print([name for name in ('flask', 'celery', 'sqlalchemy', 'requests', 'rich') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=HANG_SECONDS
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_every_command_that_asks_a_service_loads_with_the_packages_of_a_client_alone() -> None:
    """What pip installs for `.[cli]`, with what these packages need themselves."""
    allowed = (
        "click cronsim requests urllib3 idna certifi charset_normalizer rich pygments markdown_it mdurl yaml tzdata"
    )
    own = "pipeline_cli pipeline_core"
    server = sorted(PROCESSES)
    # They hold a plugin to the service's own rules, and say what they need.
    ruled = ["check", "try"]
    program = f"""
import sys, sysconfig
from importlib.machinery import PathFinder
allowed = set({(allowed + " " + own).split()!r})
site = sysconfig.get_path("purelib")
class Client:
    def find_spec(self, name, path=None, target=None):
        spec = PathFinder.find_spec(name, path, target) if "." not in name else None
        if spec and (spec.origin or site).startswith(site) and name not in allowed:
            raise ModuleNotFoundError(f"a client has no {{name}}", name=name)
sys.meta_path.insert(0, Client())
from pipeline_cli import COMMANDS
from pipeline_cli.group import LazyGroup
for name in sorted(COMMANDS.keys() - set({server!r})):
    command = COMMANDS[name].load()
    for key, entry in command.entries.items() if isinstance(command, LazyGroup) else ():
        if key not in {ruled!r}:
            entry.load()
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_scripts_name_the_command(shell: str) -> None:
    result = CliRunner().invoke(main, ["completion", shell])
    assert result.exit_code == 0
    assert "_PIPELINE_COMPLETE" in result.stdout
