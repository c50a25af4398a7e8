"""Parts are made once per runtime, closed with it, and made again in a forked child."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from pipeline_core.runtime import Runtime, give, install, part, restart

pytestmark = pytest.mark.usefixtures("fresh_runtime")

closed: list[str] = []


@part(close=closed.append)
def first() -> str:
    return "first"


@part(close=closed.append)
def second() -> str:
    return f"second after {first()}"


@part
def fresh() -> object:
    return object()


def in_a_child(answer: Callable[[], bool]) -> bool:
    pid = os.fork()
    if pid == 0:
        os._exit(0 if answer() else 1)
    return os.waitpid(pid, 0)[1] == 0


def test_a_part_is_made_once_and_anew_after_a_restart() -> None:
    before = fresh()
    assert fresh() is before
    restart()
    assert fresh() is not before


def test_values_are_closed_in_reverse_order() -> None:
    closed.clear()
    assert second() == "second after first"
    install(Runtime())
    assert closed == ["second after first", "first"]


def test_a_value_that_is_given_is_not_made_and_not_closed_and_stays() -> None:
    closed.clear()
    give(first, "given")
    assert (first(), second()) == ("given", "second after given")
    restart()
    assert first() == "given"
    install(Runtime({first: "of the next"}))
    assert (first(), closed) == ("of the next", ["second after given"])


def test_making_a_part_that_failed_is_retried() -> None:
    attempts: list[int] = []

    @part
    def late() -> int:
        attempts.append(1)
        if len(attempts) == 1:
            raise ValueError("not yet")
        return len(attempts)

    with pytest.raises(ValueError, match="not yet"):
        late()
    assert late() == late() == 2


def test_a_forked_child_makes_its_own_and_has_what_was_given() -> None:
    closed.clear()
    give(first, "given")
    before = fresh()
    assert in_a_child(lambda: fresh() is not before and first() == "given" and closed == [])
    assert fresh() is before
