"""A process that is forked is like one that its command starts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline_core.common.failpoints import EXIT_CODE
from tests import preloaded
from tests.waiting import HANG_SECONDS, wait_for

APP = """
import json, os, signal, sys, threading, time
from pipeline_core.common.failpoints import Point, reach
from pipeline_core.operations.status import up_seconds
from pipeline_core.settings import settings

print(json.dumps({
    "session": os.getsid(0) == os.getpid(), "environment": dict(os.environ), "arguments": sys.argv[1:], "folder": os.getcwd(),
    "command": open("/proc/self/cmdline").read().rstrip("\\0").split("\\0"),
    "input": os.path.realpath("/proc/self/fd/0"), "prefix": settings().redis_prefix, "since": time.monotonic() - up_seconds(),
    "files": sorted(int(number) for number in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{number}")),
}))
os.write(int(os.environ["PASSED"]), b"mine")
exec(os.environ["THEN"])
"""
ARGUMENTS = ["what_is_there", "beat", "--schedule=none"]
# The dynamic linker reads variables that begin so when a process starts: such a process is not forked.
BY_COMMAND = {"LD_OF_THIS_TEST": "1"}
Start = Callable[[str], tuple[preloaded.Process, Path, int]]


@pytest.fixture(params=[{}, BY_COMMAND], ids=["forked", "by its command"])
def variables(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """The environment of the process."""
    (tmp_path / "what_is_there.py").write_text(APP)
    own = {name: value for name, value in os.environ.items() if not name.startswith("PIPELINE_")}
    faults = {"PIPELINE_FAILPOINT": "stage.claimed:exit", "PIPELINE_FAILPOINT_DIR": str(tmp_path)}
    return {**own, "PYTHONUNBUFFERED": "1", "PIPELINE_REDIS_PREFIX": "own:", **faults, **request.param}


@pytest.fixture
def start(variables: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Starts a process that writes what it finds to its log and a word to a pipe, and goes on as it is asked to."""
    monkeypatch.chdir(tmp_path)

    def started(then: str) -> tuple[preloaded.Process, Path, int]:
        reading, writing = os.pipe()
        variables.update(PASSED=str(writing), THEN=then)
        with (tmp_path / "log").open("ab") as log:
            process = preloaded.start([sys.executable, "-m", "workers", *ARGUMENTS], variables, log, (writing,))
        os.close(writing)
        return process, tmp_path / "log", reading

    return started


def test_it_has_what_it_was_given_and_nothing_else(start: Start, variables: dict[str, str], tmp_path: Path) -> None:
    first, log, reading = start("sys.exit(3)")
    assert isinstance(first, preloaded.Forked) == (variables.keys().isdisjoint(BY_COMMAND))
    assert first.wait(HANG_SECONDS) == 3
    os.close(reading)
    log.unlink()
    now = time.monotonic()
    process, log, reading = start("sys.exit(3)")
    assert process.wait(HANG_SECONDS) == 3
    assert process.poll() == 3
    found: dict[str, Any] = json.loads(log.read_text())
    # Those that the C library and the interpreter set.
    environment = {name: value for name, value in found["environment"].items() if name in variables}
    assert environment == variables
    assert set(found["environment"]) - set(variables) <= {"LC_CTYPE"}
    assert found["files"] == [0, 1, 2, int(variables["PASSED"])]
    assert (found["arguments"], found["folder"], found["input"]) == (ARGUMENTS, str(tmp_path), "/dev/null")
    assert found["command"] == [sys.executable, "-m", "workers", *ARGUMENTS]
    assert (found["session"], found["prefix"]) == (True, "own:")
    assert found["since"] > now
    with os.fdopen(reading, "rb") as file:
        assert file.read() == b"mine"


@pytest.mark.parametrize(
    ("then", "code"),
    [
        ("reach(Point.STAGE_CLAIMED)", EXIT_CODE),
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ("raise ValueError('unexpected')", 1),
        ("threading.Thread(target=lambda: print('the last')).start(); sys.exit()", 0),
    ],
)
def test_it_ends_as_a_program_does(start: Start, then: str, code: int) -> None:
    process, log, reading = start(then)
    assert process.wait(HANG_SECONDS) == code
    os.close(reading)
    written = log.read_text()
    assert ("ValueError: unexpected" in written) == (code == 1)
    assert ("the last" in written) == (code == 0)


def test_it_runs_until_it_is_ended(start: Start) -> None:
    process, _, reading = start("signal.pause()")
    with os.fdopen(reading, "rb") as file:
        wait_for(lambda: file.read(4), "the process to run")
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0)
        os.killpg(process.pid, signal.SIGTERM)
        assert process.wait(HANG_SECONDS) == -signal.SIGTERM
        assert file.read() == b""
    process.terminate()
