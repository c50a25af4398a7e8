from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from pipeline_core.database.wakeups import RunDue, Wakeup
from tests.waiting import HANG_SECONDS
from workers import publisher
from workers.publisher import Publisher

FIRST, SECOND, THIRD = (RunDue(name) for name in ("first", "second", "third"))


class Sending:
    """Holds up what is sent first, until `go_on` is set."""

    def __init__(self) -> None:
        self.sent: list[Sequence[Wakeup]] = []
        self.begun, self.go_on = threading.Event(), threading.Event()

    def __call__(self, wakeups: Sequence[Wakeup]) -> None:
        self.sent.append(wakeups)
        self.begun.set()
        assert self.go_on.wait(HANG_SECONDS)


def test_what_comes_while_it_sends_is_sent_together_and_each_once() -> None:
    sending = Sending()
    thread = Publisher(sending)
    thread.put([FIRST])
    assert sending.begun.wait(HANG_SECONDS)
    for noted in ([SECOND], [FIRST, SECOND], [THIRD]):
        thread.put(noted)
    sending.go_on.set()
    thread.close()
    assert sending.sent == [(FIRST,), (SECOND, FIRST, THIRD)]


def test_an_error_ends_nothing() -> None:
    sent: list[Sequence[Wakeup]] = []

    def send(wakeups: Sequence[Wakeup]) -> None:
        if FIRST in wakeups:
            refused.set()
            raise ZeroDivisionError
        sent.append(wakeups)

    refused = threading.Event()
    thread = Publisher(send)
    thread.put([FIRST])
    assert refused.wait(HANG_SECONDS)
    thread.put([SECOND])
    thread.close()
    assert sent == [(SECOND,)]


def test_when_too_many_wait_more_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publisher, "MOST_GATHERED", 1)
    sending = Sending()
    thread = Publisher(sending)
    thread.put([FIRST])
    assert sending.begun.wait(HANG_SECONDS)
    thread.put([SECOND])
    thread.put([THIRD])
    sending.go_on.set()
    thread.close()
    assert sending.sent == [(FIRST,), (SECOND,)]
