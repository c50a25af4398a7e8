"""The CPU time of processes of which some end while it is counted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from scripts.benchmarks import idle
from scripts.benchmarks.cpu import seconds_of


def a_process(used: float, of_ended_children: float = 0.0) -> Any:
    times = SimpleNamespace(user=used, system=0.0, children_user=of_ended_children, children_system=0.0)
    return SimpleNamespace(cpu_times=lambda: times)


def test_what_a_process_used_before_does_not_count_when_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    present = [("postgres", a_process(1.0)), ("postgres", a_process(20.0))]
    monkeypatch.setattr(idle, "_processes", lambda: present)
    before = idle._cpu_seconds()
    present[:] = [("postgres", a_process(1.5, of_ended_children=20.25))]
    assert idle._cpu_seconds()["postgres"] - before["postgres"] == pytest.approx(0.75)


def test_one_that_has_ended_uses_nothing() -> None:
    def gone() -> Any:
        raise psutil.NoSuchProcess(1)

    assert seconds_of(SimpleNamespace(cpu_times=gone)) == 0.0  # type: ignore[arg-type]
