"""No plugin, feature or user gets all places of a worker while others wait, and none stays free that somebody could use."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pipeline_core.stages.names import Stage
from pipeline_core.stages.shares import (
    ALONE,
    FACTORS,
    SLOW_FACTOR,
    SLOW_SECONDS,
    Key,
    Kind,
    Shares,
    Waiting,
    keys_of,
    places_of,
)
from tests.unit.stages.conftest import plugin

PLACES = 56


def gate(name: str, user: str = "u1") -> frozenset[Key]:
    """The keys of a step that calls this gate, which is alone in its feature."""
    return keys_of(user, [plugin(Stage.GATES, name)])


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def fill(shares: Shares, keys: frozenset[Key], most: int = 1000) -> int:
    """Let steps with these keys enter until one is refused; how many got a place."""
    count = 0
    while count < most and shares.enter(f"{sorted(keys)}-{count}", keys):
        count += 1
    return count


def test_a_plugin_that_nobody_competes_with_gets_most_of_the_places() -> None:
    assert fill(Shares(PLACES), gate("slow")) >= PLACES * 3 // 4


def test_beside_a_slow_plugin_another_one_and_a_job_without_plugins_find_a_place() -> None:
    shares = Shares(PLACES)
    fill(shares, gate("slow"))
    assert shares.enter("other", gate("fast")), "also for the same user"
    assert shares.enter("launch", keys_of("u1", [], cluster=True))


@pytest.mark.parametrize("count", range(2, 12))
def test_however_many_slow_plugins_there_are_none_has_half_and_another_one_finds_a_place(count: int) -> None:
    shares = Shares(PLACES)
    for _ in range(PLACES):
        for number in range(count):
            keys = gate(f"slow-{number}", f"u{number}")
            shares.enter(f"{number}-{shares.usage((Kind.PLUGIN, f'slow-{number}'))}", keys)
    assert all(shares.usage((Kind.PLUGIN, f"slow-{number}")) <= PLACES // 2 for number in range(count))
    assert shares.enter("other", gate("fast", "somebody"))


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from([0.0, SLOW_SECONDS])), max_size=400))
def test_in_whatever_order_slow_plugins_are_called_quick_ones_find_a_place_for_the_same_user(
    calls: list[tuple[int, float]],
) -> None:
    clock = Clock()
    shares = Shares(PLACES, clock)
    assert shares.enter("before", gate("quick"))
    shares.leave("before")
    for number, (name, seconds) in enumerate(calls):
        shares.enter(f"slow-{number}", gate(f"slow-{name}"))
        clock.now += seconds
    for number in range(3):
        assert shares.enter(f"untried-{number}", gate(f"untried-{number}"))
    for number in range(2):
        assert shares.enter(f"quick-{number}", gate("quick"))
        assert shares.enter(f"launch-{number}", keys_of("u1", [], cluster=True))


def test_a_plugin_is_slow_from_its_first_long_call_until_one_ends_soon() -> None:
    clock = Clock()
    shares = Shares(PLACES, clock)
    assert shares.enter("first", gate("plugin"))
    shares.leave("first")
    assert shares.enter("long", gate("plugin"))
    slow = [
        f"slow-{number}" for number in range(PLACES) if shares.enter(f"slow-{number}", gate(f"slow-{number}", "u2"))
    ]
    assert shares.enter("beside", gate("plugin")), "it is quick"
    clock.now += SLOW_SECONDS
    assert not shares.enter("more", gate("plugin")), "two calls take long"
    shares.leave("long")
    shares.leave("beside")
    assert not shares.enter("more", gate("plugin")), "its last call took long"
    for owner in slow[:5]:
        shares.leave(owner)
    assert shares.enter("short", gate("plugin")), "slow ones have places again"
    shares.leave("short")
    for number in range(PLACES):
        shares.enter(f"other-{number}", gate(f"other-{number}", "u2"))
    assert shares.enter("more", gate("plugin")), "it is quick again"


def test_who_holds_more_than_half_gets_no_more_while_another_one_waits() -> None:
    shares = Shares(PLACES)
    held = fill(shares, gate("slow"))
    assert held > PLACES // 2
    fill(shares, gate("other", "u2"))
    for number in range(held):
        shares.leave(f"{sorted(gate('slow'))}-{number}")
        if shares.usage((Kind.PLUGIN, "slow")) > PLACES // 2:
            assert not shares.enter("again", gate("slow"))
        fill(shares, gate("other", "u2"))
    assert shares.usage((Kind.PLUGIN, "other")) > PLACES // 2, "and the other one gets what it gives back"


def test_a_step_holds_its_place_under_the_plugins_that_it_still_calls() -> None:
    quick, slow = plugin(Stage.FACTORS, "quick"), plugin(Stage.FACTORS, "slow")
    shares = Shares(PLACES)
    for number in range(20):
        assert shares.enter(str(number), keys_of("u1", [quick, slow]))
        shares.answered(str(number), quick)
    assert (shares.usage((Kind.PLUGIN, "quick")), shares.usage((Kind.PLUGIN, "slow"))) == (0, 20)
    assert shares.free == PLACES - 20
    shares.leave("0")
    shares.leave("0")
    assert shares.free == PLACES - 19
    shares.answered("unknown", quick)


def test_a_step_with_a_place_needs_no_second_one_for_its_next_gate() -> None:
    shares = Shares(1)
    assert shares.enter("step", gate("first"))
    assert shares.enter("step", gate("second"))
    assert shares.usage((Kind.PLUGIN, "first")) == 0
    assert not shares.enter("other", gate("third"))


def test_few_steps_are_tried_alone_at_a_time() -> None:
    assert fill(Shares(PLACES), ALONE) == 2


def test_of_those_that_wait_the_one_who_holds_fewest_is_next_and_each_in_its_order() -> None:
    shares = Shares(PLACES)
    held = fill(shares, gate("slow"))
    first, second, other = (Waiting(job, 0, Stage.GATES) for job in ("j1", "j2", "j3"))
    shares.wait(first, gate("slow"))
    shares.wait(second, gate("slow"))
    assert shares.next() is None
    shares.wait(other, gate("other"))
    assert shares.next() == other
    assert sorted(step.job_id for step in shares.waiting()) == ["j1", "j2"]
    for number in range(held):
        shares.leave(f"{sorted(gate('slow'))}-{number}")
    assert [shares.next(), shares.next(), shares.next()] == [first, second, None]
    shares.wait(first, gate("slow"))
    shares.drop([first])
    assert shares.next() is None


def test_those_that_came_last_are_handed_over_from_each_group_in_turn_and_wait_here_no_more() -> None:
    shares = Shares(PLACES)
    slow, other = gate("slow"), gate("other")
    fill(shares, slow)
    steps = [Waiting(f"j{number}", 0, Stage.GATES) for number in range(5)]
    for step in steps[:4]:
        shares.wait(step, slow)
    shares.wait(steps[4], other)
    assert shares.hand_over(0) == []
    assert shares.hand_over(3) == [steps[3], steps[4], steps[2]]
    assert shares.waiting() == steps[:2]
    assert shares.hand_over(9) == [steps[1], steps[0]]
    assert shares.waiting() == shares.hand_over(9) == []


@given(st.integers(1, 500))
def test_a_worker_has_a_place_and_from_two_threads_on_a_spare_one(threads: int) -> None:
    assert 1 <= places_of(threads) <= threads
    assert places_of(threads) < threads or threads == 1


class Crowd(RuleBasedStateMachine):
    """Steps of some plugins and users come and go in any order. Every call that has ended was quick."""

    def __init__(self) -> None:
        super().__init__()
        self.shares = Shares(16, Clock())
        self.held: dict[str, frozenset[Key]] = {}
        self.quick: set[Key] = set()
        self.count = 0

    @rule(names=st.sets(st.sampled_from("abcd"), max_size=2), user=st.sampled_from(["u1", "u2"]))
    def come(self, names: Iterable[str], user: str) -> None:
        keys = keys_of(user, [plugin(Stage.FACTORS, name) for name in names])
        usage = {key: self.shares.usage(key) for key in keys}
        free = self.shares.free
        free_for_slow = 14 - sum(bool(self.slow_among(held)) for held in self.held.values())
        self.count += 1
        if self.shares.enter(str(self.count), keys):
            self.held[str(self.count)] = keys
            assert all(usage[key] < FACTORS[key[0]] * free for key in keys)
        else:
            # Whoever is refused holds, under one of its keys, a multiple of what is free: of all places, or of those for
            # plugins that are not quick.
            assert (
                free == 0
                or any(usage[key] >= FACTORS[key[0]] * free > 0 for key in keys)
                or any(usage[key] >= SLOW_FACTOR * min(free, free_for_slow) for key in self.slow_among(keys))
            )

    def slow_among(self, keys: frozenset[Key]) -> list[Key]:
        return [key for key in keys if key[0] is Kind.PLUGIN and key not in self.quick]

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def go(self, data: st.DataObject) -> None:
        owner = data.draw(st.sampled_from(sorted(self.held)))
        self.shares.leave(owner)
        self.quick |= self.held.pop(owner)

    @invariant()
    def places_are_counted(self) -> None:
        assert self.shares.free == 16 - len(self.held) >= 0
        for key in {key for keys in self.held.values() for key in keys}:
            assert self.shares.usage(key) == sum(key in keys for keys in self.held.values())


TestCrowd = Crowd.TestCase
