"""Who may start a call: shares of subscribers, features and owners, and places that slow subscribers cannot take."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_core.hooks.places import BATCH, SLOW_SECONDS, Call, Places, Subscriber

TOTAL, EACH = 8, 3
LONG = 2 * SLOW_SECONDS
PROMPT = Subscriber("prompt", "prompt", "pat")


def subscribers(count: int, owner: str = "ann") -> list[Subscriber]:
    return [Subscriber(f"{owner}{number}", f"{owner}{number}", owner) for number in range(count)]


def places(*answering: Subscriber, total: int = TOTAL, each: int = EACH) -> Places:
    """Places of which these subscribers have answered a call already."""
    made = Places(total, each)
    for subscriber in answering:
        made.end(made.begin(subscriber, 0), 0, answered=True)
    return made


def fill(made: Places, waiting: Iterable[Subscriber], now: float) -> list[Call]:
    """Start as many calls as there are places for."""
    calls, waiting = [], list(waiting)
    while subscriber := made.next(waiting, now):
        calls.append(made.begin(subscriber, now))
    return calls


@pytest.mark.parametrize("owners", [1, 40])
def test_however_many_subscribers_hang_one_that_answers_finds_a_place(owners: int) -> None:
    hanging = [one for number in range(owners) for one in subscribers(40 // owners, f"owner{number}-")]
    made = places(PROMPT, *hanging)
    without_place = []
    for turn in range(20):
        now = 1 + turn * LONG
        calls = [call for call in fill(made, [*hanging, PROMPT], now) if call.subscriber == PROMPT]
        for call in calls:
            made.end(call, now, answered=True)
        if not calls:
            without_place.append(turn)
    assert len(without_place) <= 40 / TOTAL, "only as long as it takes to find out who hangs"
    assert made.held <= made.most


def test_slow_subscribers_share_half_of_the_places_and_get_more_when_they_answer_in_time() -> None:
    slow = subscribers(TOTAL)
    made = places(*slow)
    for call in fill(made, slow, 1):
        made.end(call, 1 + LONG, answered=True)
    calls = fill(made, slow, 10)
    assert len(calls) == TOTAL // 2 + TOTAL // 8
    for call in calls:
        made.end(call, 10, answered=True)
    assert len(fill(made, [call.subscriber for call in calls], 10)) == TOTAL


def test_one_that_was_slow_once_is_tried_again_beside_those_that_never_answer() -> None:
    made = places(PROMPT, total=4 * TOTAL)
    hanging = subscribers(40)
    for now in (0, LONG):
        for call in fill(made, hanging, now):
            made.end(call, now + LONG, answered=False)
    held = fill(made, hanging, 2 * LONG)
    assert len(held) == 2 * TOTAL
    made.end(made.begin(PROMPT, 2 * LONG), 3 * LONG, answered=True)
    assert made.ahead(PROMPT.key, 0, 3 * LONG) == 1
    (call,) = fill(made, [*hanging, PROMPT], 3 * LONG)
    assert call.subscriber == PROMPT
    made.end(call, 3 * LONG, answered=True)
    assert len(fill(made, [*hanging, PROMPT], 3 * LONG)) == EACH, "it is not slow any more"


def test_trials_take_an_eighth_more_and_no_place_of_the_others() -> None:
    slow = subscribers(40)
    made = places(*slow, total=4 * TOTAL, each=TOTAL)
    for call in fill(made, slow, 1):
        made.end(call, 1 + LONG, answered=True)
    calls = fill(made, slow[: 4 * TOTAL], 10)
    assert len(calls) == 2 * TOTAL + TOTAL // 2
    assert sum(call.trial for call in calls) == TOTAL // 2
    assert len(fill(made, subscribers(4 * TOTAL, "bob"), 10)) == 4 * TOTAL


def test_a_subscriber_that_has_not_answered_yet_or_the_last_time_is_tried_with_one_call() -> None:
    made = places()
    (call,) = fill(made, [PROMPT], 0)
    made.end(call, 0, answered=False)
    assert made.ahead(PROMPT.key, 0, 0) == 1
    (call,) = fill(made, [PROMPT], 0)
    assert made.ahead(PROMPT.key, 0, 0) == 0
    made.end(call, 0, answered=True)
    assert len(fill(made, [PROMPT], 0)) == EACH


def test_a_call_that_was_not_made_says_nothing_of_its_subscriber() -> None:
    made = places(PROMPT)
    made.end(made.begin(PROMPT, 0), 0, answered=None)
    assert made.ahead(PROMPT.key, 0, 0) == BATCH


@pytest.mark.parametrize(("pending", "more"), [(0, BATCH), (BATCH // 2, BATCH // 2), (BATCH // 2 + 1, 0), (BATCH, 0)])
def test_batches_are_claimed_ahead_of_a_subscriber_that_answers(pending: int, more: int) -> None:
    assert places(PROMPT).ahead(PROMPT.key, pending, 0) == more


def test_of_a_slow_subscriber_is_claimed_what_can_be_started() -> None:
    slow = subscribers(1)[0]
    made = places(slow, each=TOTAL)
    made.begin(slow, 0)
    assert made.ahead(slow.key, 0, LONG) == TOTAL // 2 - 1
    assert made.ahead(slow.key, TOTAL, LONG) == 0


def test_who_holds_half_waits_for_the_others_and_takes_all_when_nobody_else_waits() -> None:
    many, other = subscribers(5), subscribers(1, "bob")[0]
    made = places(*many, other, each=TOTAL)
    calls = fill(made, many, 1)
    assert len(calls) == TOTAL
    for call in calls[: TOTAL // 4]:
        made.end(call, 1, answered=True)
    assert [call.subscriber for call in fill(made, [*many, other], 1)] == [other] * (TOTAL // 4)


def test_one_place_is_enough_for_all() -> None:
    made = places(PROMPT, total=1)
    (call,) = fill(made, [PROMPT], 0)
    made.end(call, LONG, answered=True)
    assert len(fill(made, [PROMPT], LONG)) == 1


EVERYBODY = [Subscriber(f"k{n}", f"f{n // 2}", f"o{n // 4}") for n in range(8)]
Step = tuple[str, int, float]
STEPS = st.lists(
    st.tuples(st.sampled_from(["start", "answered", "failed", "not asked"]), st.integers(0, 99), st.floats(0, LONG)),
    max_size=120,
)


@given(STEPS, st.integers(1, 6), st.integers(1, 4), st.sets(st.sampled_from(EVERYBODY), min_size=1))
def test_shares_hold_in_every_order_of_events(
    steps: list[Step], total: int, each: int, waiting: set[Subscriber]
) -> None:
    made, held, now = Places(total, each), list[Call](), 0.0
    slow, answering = set[str](), set[str]()

    def is_slow(subscriber: Subscriber) -> bool:
        times = [call.started for call in held if call.subscriber == subscriber]
        return subscriber.key in slow or (bool(times) and now - min(times) >= SLOW_SECONDS)

    def calls_of(subscriber: Subscriber) -> int:
        return sum(call.subscriber == subscriber for call in held)

    def share(subscriber: Subscriber) -> int:
        same = [
            [getattr(call.subscriber, name) for call in held].count(getattr(subscriber, name))
            for name in ("key", "feature", "owner")
        ]
        return max(same)

    for what, number, seconds in steps:
        now += seconds
        if what == "start":
            by_slow = sum(is_slow(call.subscriber) and not call.trial for call in held)
            trials = sum(call.trial for call in held)
            startable = [
                one
                for one in waiting
                if calls_of(one) < (each if one.key in answering else 1)
                and len(held) < made.most
                and (
                    by_slow < max(total // 2, 1)
                    or (one.key in answering and not calls_of(one) and trials < max(total // 8, 1))
                    if is_slow(one)
                    else len(held) - by_slow - trials < total
                )
            ]
            chosen = made.next(waiting, now)
            assert (chosen is None) == (not startable), "no place stays free while somebody waits for it"
            if chosen:
                assert chosen in startable
                if 2 * share(chosen) >= total:
                    assert all(2 * share(one) >= total for one in startable), "nobody else waits with less than half"
                tried = is_slow(chosen) and by_slow >= max(total // 2, 1)
                held.append(made.begin(chosen, now))
                assert held[-1].trial == tried
        elif held:
            call = held.pop(number % len(held))
            key = call.subscriber.key
            made.end(call, now, answered={"answered": True, "failed": False}.get(what))
            if now - call.started >= SLOW_SECONDS:
                slow.add(key)
            elif what == "answered":
                slow.discard(key)
            if what == "answered":
                answering.add(key)
            elif what == "failed":
                answering.discard(key)
        assert made.held == len(held) <= made.most
