"""The threads that the background worker runs beside its tasks."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tests.waiting import HANG_SECONDS, wait_for
from workers.background import Background

PARENT = SimpleNamespace(app=None)


@pytest.fixture
def exits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The codes with which the process would have ended."""
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    return codes


def started(run: Callable[[], object], end: Callable[[], object]) -> Background:
    class Step(Background):
        name = "step"

        def make(self, parent: Any) -> tuple[Callable[[], object], Callable[[], object]]:
            return run, end

    step = Step(PARENT)
    step.start(PARENT)
    return step


def test_a_thread_is_ended_with_the_worker_and_waited_for(exits: list[int]) -> None:
    end, done = threading.Event(), threading.Event()

    def run() -> None:
        end.wait(HANG_SECONDS)
        done.set()

    step = started(run, end.set)
    assert not done.is_set()
    step.stop(PARENT)
    assert done.is_set()
    assert exits == []


def test_a_thread_that_ends_by_itself_ends_the_process(exits: list[int]) -> None:
    started(lambda: None, lambda: None)
    wait_for(lambda: exits == [os.EX_SOFTWARE], "the process to end")


def test_a_thread_that_fails_ends_the_process(exits: list[int]) -> None:
    def fail() -> None:
        raise RuntimeError("by chance")

    started(fail, lambda: None)
    wait_for(lambda: exits == [os.EX_SOFTWARE], "the process to end")
