"""The ticks that a process runs itself: at their intervals, one of a kind at a time, whatever one of them does."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pipeline_core.errors import Unavailable
from tests.waiting import HANG_SECONDS, wait_for
from workers.ticker import Ticker

OFTEN = 0.001


@contextmanager
def running(seconds: float = OFTEN, **ticks: Callable[[], object]) -> Iterator[None]:
    ticker = Ticker(ticks, dict.fromkeys(ticks, seconds))
    thread = threading.Thread(target=ticker.run)
    thread.start()
    try:
        yield
    finally:
        ticker.stop()
        thread.join(HANG_SECONDS)
        assert not thread.is_alive()


def test_a_tick_runs_at_once_and_again_after_its_interval() -> None:
    ran: Counter[str] = Counter()
    ticker = Ticker({name: lambda name=name: ran.update([name]) for name in ("a", "b")}, {"a": 1.0, "b": 10.0})  # type: ignore[misc]
    assert ticker._start_due(100.0) == 1.0
    wait_for(lambda: ran == {"a": 1, "b": 1}, "both to run at once")
    wait_for(lambda: not ticker._running, "both to be done")
    assert ticker._start_due(100.5) == 0.5
    assert ticker._start_due(101.0) == 1.0
    wait_for(lambda: ran == {"a": 2, "b": 1}, "the one that is due to run again")
    ticker.stop()
    ticker.run()


def test_a_tick_that_waits_neither_runs_twice_at_a_time_nor_holds_up_the_others() -> None:
    waits, ran = threading.Event(), Counter[str]()

    def slow() -> None:
        ran["slow"] += 1
        waits.wait(HANG_SECONDS)

    with running(slow=slow, quick=lambda: ran.update(["quick"])):
        wait_for(lambda: ran["slow"] and ran["quick"] > 20, "the quick one to go on")
        assert ran["slow"] == 1
        waits.set()
        wait_for(lambda: ran["slow"] > 1, "the slow one to run again")


def test_of_the_ticks_that_are_asked_for_only_those_with_work_run() -> None:
    ran: Counter[str] = Counter()
    work = {"a"}
    names = ("a", "b", "always")
    ticks = {name: lambda name=name: ran.update([name]) for name in names}  # type: ignore[misc]
    ticker = Ticker(ticks, dict.fromkeys(names, 1.0), asked=("a", "b"), with_work=lambda: work)
    ticker._start_due(100.0)
    wait_for(lambda: ran == {"a": 1, "always": 1} and not ticker._running, "those with work, and the one not asked for")
    work.add("b")
    ticker._start_due(101.0)
    ticker.stop()
    ticker.run()
    assert ran == {"a": 2, "b": 1, "always": 2}


def test_while_the_database_is_away_only_the_ticks_run_that_are_not_asked_for() -> None:
    ran: Counter[str] = Counter()

    def away() -> list[str]:
        raise Unavailable("The database is away.")

    ticks = {name: lambda name=name: ran.update([name]) for name in ("asked", "always")}  # type: ignore[misc]
    ticker = Ticker(ticks, dict.fromkeys(ticks, 1.0), asked=("asked",), with_work=away)
    ticker._start_due(100.0)
    ticker.stop()
    ticker.run()
    assert ran == {"always": 1}


def test_a_tick_that_fails_runs_again() -> None:
    ran: Counter[str] = Counter()

    def fails() -> None:
        ran["fails"] += 1
        raise ValueError("by chance")

    with running(fails=fails):
        wait_for(lambda: ran["fails"] > 1, "another try")


def test_a_tick_under_way_is_waited_for_at_the_end() -> None:
    begun, done = threading.Event(), []

    def slow() -> None:
        begun.set()
        stopping.wait(HANG_SECONDS)
        done.append(True)

    stopping = threading.Event()
    ticker = Ticker({"slow": slow}, {"slow": 60.0})
    thread = threading.Thread(target=ticker.run)
    thread.start()
    assert begun.wait(HANG_SECONDS)
    ticker.stop()
    stopping.set()
    thread.join(HANG_SECONDS)
    assert done == [True]
