"""The watcher goes on whatever fails, and reports what it is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from typing import Any

import pytest

from pipeline_core.clusters.base import ClusterDenied, ClusterUnavailable
from pipeline_core.clusters.null import NullCluster
from pipeline_core.errors import Unavailable
from workers import watch

Reports = list[tuple[str, float]]


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch) -> Reports:
    """What the watcher reports, in a process that always has the lease; pauses take no time."""
    made: Reports = []

    def report(name: str, *, problem: str = "", lag_seconds: float = 0.0) -> None:
        made.append((problem, lag_seconds))

    monkeypatch.setattr(watch.cluster_health, "report", report)
    monkeypatch.setattr(watch, "hold", lambda *_: True)
    monkeypatch.setattr(watch, "release", lambda *_: None)
    monkeypatch.setattr(watch, "PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(watch, "UNEXPECTED_PAUSE_SECONDS", 0.0)
    return made


def failing(*errors: Exception) -> tuple[threading.Event, Callable[..., None]]:
    """A `follow` that fails with each of these errors, then asks to stop."""
    stop, left = threading.Event(), list(errors)

    def follow(*_: Any) -> None:
        error = left.pop(0)
        if not left:
            stop.set()
        raise error

    return stop, follow


def test_no_error_ends_the_watcher_and_those_of_the_cluster_are_reported(
    monkeypatch: pytest.MonkeyPatch, reports: Reports
) -> None:
    stop, follow = failing(
        ClusterDenied("the service lacks rights"),
        Unavailable("the database is unavailable"),
        KeyError("hush"),
        ClusterUnavailable("the cluster cannot be reached"),
    )
    monkeypatch.setattr(watch, "follow", follow)
    watch.watch(stop, "here")
    problems = [problem for problem, _ in reports]
    assert problems == [
        "the service lacks rights",
        "the watcher failed with an unexpected error, KeyError; its log has it",
        "the cluster cannot be reached",
    ]


class Watched(NullCluster):
    """A cluster whose check fails with `refusal`, and that names one job, then asks to stop."""

    def __init__(self, stop: threading.Event, refusal: ClusterUnavailable | None = None) -> None:
        super().__init__("here")
        self.stop = stop
        self.refusal = refusal

    def check(self) -> None:
        if self.refusal:
            raise self.refusal

    def watch(self, stop: threading.Event) -> Iterator[Collection[str]]:
        yield ("j1",)
        self.refusal = ClusterDenied("the service lacks rights")
        yield ()

    def watch_lag(self) -> float:
        return 3.0


def test_nothing_is_watched_before_the_check_has_passed(monkeypatch: pytest.MonkeyPatch, reports: Reports) -> None:
    stop = threading.Event()
    here = Watched(stop, ClusterUnavailable("the cluster cannot be reached"))
    monkeypatch.setattr(watch, "cluster", lambda: here)
    with pytest.raises(ClusterUnavailable, match="cannot be reached"):
        watch.follow(stop, "here")
    assert reports == []


def test_rights_that_are_taken_away_while_watching_are_reported(
    monkeypatch: pytest.MonkeyPatch, reports: Reports
) -> None:
    here = Watched(threading.Event())
    monkeypatch.setattr(watch, "cluster", lambda: here)
    monkeypatch.setattr(watch, "CHECK_SECONDS", 0.0)
    state = watch.WatchState()
    state.report()
    assert reports == [], "the cluster has not answered yet"
    with state.applying():
        pass
    state.check()
    state.report()
    here.refusal = ClusterDenied("the service lacks rights")
    state.check()
    state.report()
    here.refusal = None
    state.check()
    state.report()
    assert reports == [("", 3.0), ("the service lacks rights", 3.0), ("", 3.0)]


def test_the_lag_counts_changes_that_are_being_applied(monkeypatch: pytest.MonkeyPatch, reports: Reports) -> None:
    here = Watched(threading.Event())
    monkeypatch.setattr(watch, "cluster", lambda: here)
    state = watch.WatchState()
    with state.applying():
        pass
    moment = 100.0
    monkeypatch.setattr(watch.time, "monotonic", lambda: moment)
    with state.applying():
        moment = 170.0
        state.report()
    assert reports == [("", 70.0)]


def test_a_follower_observes_what_the_watch_names(monkeypatch: pytest.MonkeyPatch, reports: Reports) -> None:
    stop = threading.Event()
    here = Watched(stop)
    observed: list[str] = []
    monkeypatch.setattr(watch, "cluster", lambda: here)
    monkeypatch.setattr(watch.rollup, "apply_cached_observations", list)
    monkeypatch.setattr(watch.rollup, "observe", observed.append)
    watch.follow(stop, "here")
    assert observed == ["j1"]
