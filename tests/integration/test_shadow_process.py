"""The process that asks shadows runs while there are shadows, and no longer than the worker that keeps it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline_core.errors import Unavailable
from pipeline_core.features import snapshot
from pipeline_core.settings import Settings
from tests.waiting import HANG_SECONDS, wait_for
from workers import processes, shadow_process
from workers.shadow_process import LEAST_PRIORITY, ShadowProcess

UNTIL_THE_END = "import sys; sys.stdin.buffer.read(); open(sys.argv[1], 'w').close()"


@pytest.fixture
def ended(tmp_path: Path) -> Path:
    """The file that the process leaves when it ends by itself."""
    return tmp_path / "ended"


@pytest.fixture
def present(monkeypatch: pytest.MonkeyPatch, ended: Path) -> SimpleNamespace:
    """Whether there are shadows."""
    registered = SimpleNamespace(has_shadows=True)
    monkeypatch.setattr(shadow_process, "transaction", nullcontext)
    monkeypatch.setattr(snapshot, "current", lambda session: registered)
    monkeypatch.setattr(shadow_process, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(shadow_process, "RESTART_SECONDS", 0.01)
    monkeypatch.setattr(shadow_process, "LINGER_SECONDS", 0.0)
    monkeypatch.setattr(processes, "shadows", lambda: [sys.executable, "-c", UNTIL_THE_END, str(ended)])
    return registered


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """The processes that have been started."""
    found: list[subprocess.Popen[bytes]] = []
    start = shadow_process._start

    def noted() -> subprocess.Popen[bytes]:
        found.append(start())
        return found[-1]

    monkeypatch.setattr(shadow_process, "_start", noted)
    return found


@contextmanager
def kept() -> Iterator[None]:
    keeper = ShadowProcess()
    thread = threading.Thread(target=keeper.run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        keeper.stop()
        thread.join(HANG_SECONDS)
    assert not thread.is_alive()


def test_it_has_the_lowest_priority_and_ends_with_its_keeper(
    present: SimpleNamespace, started: list[subprocess.Popen[bytes]], ended: Path
) -> None:
    with kept():
        wait_for(lambda: started, "the process")
        assert os.getpriority(os.PRIO_PROCESS, started[0].pid) == LEAST_PRIORITY
    assert started[0].returncode == 0
    assert ended.exists()


def test_without_shadows_there_is_none(present: SimpleNamespace, started: list[subprocess.Popen[bytes]]) -> None:
    with kept():
        wait_for(lambda: started, "the process")
        present.has_shadows = False
        wait_for(lambda: started[0].returncode == 0, "its end")
        present.has_shadows = True
        wait_for(lambda: len(started) == 2, "another one")


def test_one_that_was_killed_is_replaced(present: SimpleNamespace, started: list[subprocess.Popen[bytes]]) -> None:
    with kept():
        wait_for(lambda: started, "the process")
        started[0].kill()
        wait_for(lambda: len(started) == 2, "another one")


def test_it_stays_while_the_database_is_unavailable(
    present: SimpleNamespace, started: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = threading.Semaphore(0)

    def fail(session: Any) -> Any:
        asked.release()
        raise Unavailable("away")

    with kept():
        wait_for(lambda: started, "the process")
        monkeypatch.setattr(snapshot, "current", fail)
        assert all(asked.acquire(timeout=HANG_SECONDS) for _ in range(3))
        assert started[0].poll() is None
    assert len(started) == 1


def test_one_that_does_not_end_is_killed(
    present: SimpleNamespace, started: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shadow_process, "END_SECONDS", 0.05)
    monkeypatch.setattr(processes, "shadows", lambda: [sys.executable, "-c", "import time; time.sleep(3600)"])
    with kept():
        wait_for(lambda: started, "the process")
    assert started[0].returncode == -9


def test_the_process_ends_with_its_standard_input(service_settings: Settings) -> None:
    with subprocess.Popen(processes.shadows(), stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(HANG_SECONDS) == 0
