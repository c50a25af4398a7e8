"""Merging observations of replicas in any order, and when replicas are retried."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_core.clusters.base import Observation, ReplicaReport
from pipeline_core.jobs.replicas import KnownReplicas, counted, is_newer, next_retry_at
from pipeline_core.states import ReplicaState
from pipeline_core.taskset.document import roles
from tests.builders import taskset

ENDS = [state for state in ReplicaState if state.ended]
PATH = (ReplicaState.WAITING, ReplicaState.RUNNING)
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)

History = Sequence[ReplicaState]
"""How each attempt of a replica ends, in their order: an attempt waits, runs, and then ends like this."""


def report(index: int, history: History, attempt: int, rank: int) -> ReplicaReport:
    """The report of a cluster at this point of a replica's history."""
    state = (*PATH, history[attempt])[rank]
    return ReplicaReport("worker", index, state, attempt=attempt, reason=f"{attempt}.{rank}")


@st.composite
def observed(draw: st.DrawFn) -> list[Observation]:
    """Observations of one job, of some or all of its replicas, each at any point of its history."""
    histories = draw(st.lists(st.lists(st.sampled_from(ENDS), min_size=1, max_size=3), min_size=1, max_size=3))
    points = st.tuples(st.integers(0, 2), st.integers(0, 2))
    return [
        Observation(
            "j1",
            0,
            tuple(
                report(index, history, min(draw(points)[0], len(history) - 1), draw(points)[1])
                for index, history in enumerate(histories)
                if draw(st.booleans())
            ),
        )
        for _ in range(draw(st.integers(1, 6)))
    ]


def merged(observations: Sequence[Observation]) -> dict[tuple[str, int], ReplicaReport]:
    known = KnownReplicas({}, None, {})
    for observation in observations:
        known.merge(observation)
    return known.reports


def place(one: ReplicaReport) -> tuple[int, int]:
    """How far a report is in its replica's history."""
    return one.attempt, 2 if one.state.ended else PATH.index(one.state)


@given(observed(), st.randoms())
def test_observations_lead_to_the_same_in_any_order_and_however_often_they_come(observations, random) -> None:
    again = [*observations, *random.choices(observations, k=3)]
    random.shuffle(again)
    assert merged(again) == merged(observations)


@given(observed())
def test_the_most_advanced_of_all_reports_is_kept(observations: list[Observation]) -> None:
    reports = [one for observation in observations for one in observation.replicas]
    for key, known in merged(observations).items():
        assert place(known) == max(place(one) for one in reports if (one.role, one.index) == key)


@given(observed())
def test_states_never_go_back(observations: list[Observation]) -> None:
    known = KnownReplicas({}, None, {})
    for observation in observations:
        before = dict(known.reports)
        changed = known.merge(observation)
        assert {(one.role, one.index) for one in changed} == {
            key for key, one in known.reports.items() if before.get(key) != one
        }
        assert all(place(known.reports[key]) >= place(one) for key, one in before.items())


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("other", ENDS)
def test_the_first_end_of_an_attempt_stays(end: ReplicaState, other: ReplicaState) -> None:
    known = ReplicaReport("worker", 0, end)
    assert not is_newer(ReplicaReport("worker", 0, other, reason="late"), known)
    assert is_newer(ReplicaReport("worker", 0, ReplicaState.WAITING, attempt=1), known)


def test_a_report_of_the_same_state_brings_its_details_up_to_date() -> None:
    known = KnownReplicas({}, None, {("worker", 0): ReplicaReport("worker", 0, ReplicaState.RUNNING)})
    detailed = ReplicaReport("worker", 0, ReplicaState.RUNNING, pod_ip="10.0.0.1")
    assert known.merge(Observation("j1", 0, (detailed,))) == [detailed]
    assert known.merge(Observation("j1", 0, (detailed,))) == []


RETRIED = taskset(replicas=2, retryPolicy={"retry": True, "maxRetryCount": 1, "delay": 30})


def failed(index: int, attempt: int = 0, seconds: int = 0) -> ReplicaReport:
    return ReplicaReport(
        "worker", index, ReplicaState.FAILED, attempt=attempt, finished_at=NOON + timedelta(seconds=seconds)
    )


def test_a_failed_replica_counts_as_running_until_its_retries_are_used_up() -> None:
    (role,) = roles(RETRIED)
    assert counted(role, None) is ReplicaState.WAITING
    assert counted(role, failed(0)) is ReplicaState.RUNNING
    assert counted(role, failed(0, attempt=1)) is ReplicaState.FAILED


def test_the_next_retry_is_the_earliest_of_those_that_are_left() -> None:
    going_on, ended = {"worker": ReplicaState.RUNNING}, {"worker": ReplicaState.SUCCEEDED}
    both = {("worker", 0): failed(0, seconds=9), ("worker", 1): failed(1)}
    assert next_retry_at(RETRIED, both, going_on) == NOON + timedelta(seconds=30)
    assert next_retry_at(RETRIED, both, ended) is None
    assert next_retry_at(RETRIED, {("worker", 0): failed(0, attempt=1)}, going_on) is None
