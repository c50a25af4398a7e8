"""The ticks that a process runs itself: at their intervals, one of a kind at a time, whatever one of them does."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

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
