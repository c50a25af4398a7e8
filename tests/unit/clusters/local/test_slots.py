"""Which job gets the next slot on the local cluster."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_core.clusters.local.slots import Holder, Ticket, serving_order

LIMIT = 4
users = st.sampled_from(["aa", "bb", "cc"])
jobs = st.sampled_from(["one", "two-b", "three.c"])
tickets = st.sets(st.builds(Ticket, st.integers(0, 50), users, st.integers(1, 8), st.integers(0, 1), jobs))
holders = st.lists(st.builds(Holder, users, st.integers(0, 1), jobs))


def ticket(since: int, user: str, job: str = "", size: int = LIMIT + 1) -> Ticket:
    return Ticket(since, user, size, 0, job or f"job-{user}-{since}")


def served(line: list[Ticket], *held: Holder) -> list[tuple[int, str]]:
    return [(one.since, one.user) for one in serving_order(line, held, LIMIT)]


@given(st.builds(Ticket, st.integers(0), users, st.integers(1), st.integers(0), jobs))
def test_a_ticket_is_the_name_of_a_file_and_back(one: Ticket) -> None:
    again = Ticket.parse(str(one))
    assert again == one
    assert (again.since, again.user, again.size, again.attempt, again.job) == (
        one.since,
        one.user,
        one.size,
        one.attempt,
        one.job,
    )


def test_the_user_with_the_fewest_running_replicas_is_next() -> None:
    line = [ticket(1, "aa"), ticket(2, "bb"), ticket(3, "cc")]
    assert served(line, Holder("aa", 0, "x"), Holder("aa", 0, "y"), Holder("bb", 0, "z")) == [
        (3, "cc"),
        (2, "bb"),
        (1, "aa"),
    ]


def test_within_a_user_and_between_equals_whoever_came_first_is_next() -> None:
    line = [ticket(4, "aa"), ticket(2, "bb"), ticket(1, "aa"), ticket(3, "cc")]
    assert served(line) == [(1, "aa"), (2, "bb"), (3, "cc"), (4, "aa")]


def test_a_job_that_has_begun_comes_before_all_others() -> None:
    begun = ticket(9, "aa", "begun", size=LIMIT)
    assert served([ticket(1, "bb"), begun], Holder("aa", 0, "begun"))[0] == (9, "aa")


@pytest.mark.parametrize("held", [Holder("aa", 1, "begun"), Holder("aa", 0, "another")])
def test_another_job_or_attempt_does_not_make_it_begun(held: Holder) -> None:
    assert served([ticket(1, "bb"), ticket(0, "aa", "begun", size=LIMIT)], held)[0] == (1, "bb")


def test_a_job_that_never_runs_all_at_a_time_takes_its_turn_like_all_others() -> None:
    begun = ticket(0, "aa", "begun", size=LIMIT + 1)
    assert served([ticket(1, "bb"), begun], Holder("aa", 0, "begun"))[0] == (1, "bb")


@given(tickets, holders)
def test_each_ticket_is_in_the_queue_once(line: set[Ticket], held: list[Holder]) -> None:
    assert sorted(map(str, serving_order(line, held, LIMIT))) == sorted(map(str, line))


@given(tickets, holders)
def test_nobody_is_passed_by_a_user_with_as_many_running_who_came_later(line: set[Ticket], held: list[Holder]) -> None:
    running = Counter(holder.user for holder in held)
    begun = {(holder.job, holder.attempt) for holder in held}
    fresh = [one for one in serving_order(line, held, LIMIT) if (one.job, one.attempt) not in begun or one.size > LIMIT]
    ranks = [(running[one.user], one.since) for one in fresh]
    assert ranks == sorted(ranks)


@given(
    st.lists(st.tuples(users, st.integers(1, LIMIT)), min_size=1, max_size=8),
    st.integers(0, 3),
    st.randoms(use_true_random=False),
)
def test_jobs_whose_replicas_wait_for_each_other_all_come_to_run(
    sizes: list[tuple[str, int]], alone: int, dice: random.Random
) -> None:
    """Each job ends only once all of its replicas run. Some replicas, each its own job, end whenever they like."""
    waiting = {
        f"job-{number}": (user, size, size) for number, (user, size) in enumerate([*sizes, *[("dd", 1)] * alone])
    }
    held: list[Holder] = []
    while waiting or held:
        line = [Ticket(number, waiting[job][0], waiting[job][1], 0, job) for number, job in enumerate(waiting)]
        complete = sorted({holder.job for holder in held} - set(waiting))
        if line and len(held) < LIMIT and (not complete or dice.random() < 0.7):
            job = serving_order(line, held, LIMIT)[0].job
            user, size, left = waiting.pop(job)
            held.append(Holder(user, 0, job))
            if left > 1:
                waiting[job] = (user, size, left - 1)
        else:
            assert complete, f"{[holder.job for holder in held]} hold all slots and {waiting} wait for ever"
            ended = dice.choice(complete)
            held = [holder for holder in held if holder.job != ended]
