"""What follows for a job from its replicas."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pipeline_core.clusters.base import ReplicaKey, ReplicaReport
from pipeline_core.jobs.replicas import counted
from pipeline_core.jobs.rollup import Decision, decide, first_failed, waiting_reason
from pipeline_core.states import JobState, ReplicaState
from pipeline_core.taskset.document import roles
from pipeline_core.taskset.rollup import roll_up
from tests.builders import container, role, taskset, taskset_of

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
W, R, S, F = ReplicaState.WAITING, ReplicaState.RUNNING, ReplicaState.SUCCEEDED, ReplicaState.FAILED


def report(index: int, state: ReplicaState, role: str = "worker", **fields: Any) -> ReplicaReport:
    started = None if state is W else NOON + timedelta(seconds=index)
    finished = NOON + timedelta(minutes=1 + index) if state.ended else None
    return ReplicaReport(role, index, state, **{"started_at": started, "finished_at": finished, **fields})


def decision(document: Any, reports: Sequence[ReplicaReport], attempt: int = 0) -> Decision:
    known = {(one.role, one.index): one for one in reports}
    states = {
        part.name: [counted(part, known.get((part.name, index))) for index in range(part.replicas)]
        for part in roles(document)
    }
    return decide(document, known, roll_up(roles(document), states), attempt)


@pytest.mark.parametrize(
    ("states", "state"),
    [
        ([], None),
        ([W, W], None),
        ([R, W], None),
        ([S, R], None),
        ([S, S], JobState.SUCCEEDED),
        ([S, F], JobState.FAILED),
        ([F, R], JobState.FAILED),
    ],
)
def test_the_replicas_decide_about_the_job(states: list[ReplicaState], state: JobState | None) -> None:
    found = decision(taskset(replicas=2), [report(index, one) for index, one in enumerate(states)])
    assert found.state is state
    assert found.next_attempt is False


def test_a_job_starts_with_its_first_replica_and_ends_with_its_last() -> None:
    found = decision(taskset(replicas=2), [report(0, S), report(1, S)])
    assert (found.started_at, found.finished_at) == (NOON, NOON + timedelta(minutes=2))
    assert (found.exit_code, found.exit_diagnostics, found.reason) == (0, "", "")


def test_the_job_s_exit_code_log_and_reason_are_those_of_the_first_failed_replica() -> None:
    found = decision(
        taskset(replicas=2),
        [report(0, R), report(1, F, exit_code=3, diagnostics="boom", reason="Error")],
    )
    assert (found.exit_code, found.exit_diagnostics) == (3, "boom")
    assert found.reason == "worker-1 failed: Error, exit code 3"


def test_the_first_failed_replica_is_so_by_the_order_of_roles_then_by_index() -> None:
    document = taskset_of(role("ps", container()), role("worker", container(), replicas=2))
    reports = [report(0, F, "worker"), report(1, F, "worker"), report(0, F, "ps")]
    assert first_failed(document, reports) == reports[2]
    assert first_failed(document, reports[1::-1]) == reports[0]
    assert first_failed(document, [report(0, R, "ps")]) is None


def test_a_job_with_retries_left_is_launched_again_and_what_still_runs_of_it_is_deleted() -> None:
    document = {**taskset(replicas=2)}
    document["spec"] = {**document["spec"], "retryPolicy": {"retry": True, "maxRetryCount": 1, "delay": 5}}
    reports = [report(0, F), report(1, R)]
    first = decision(document, reports)
    assert (first.state, first.next_attempt) == (JobState.FAILED, True)
    assert first.unneeded == (ReplicaKey("worker", 1, 0),)
    last = decision(document, reports, attempt=1)
    assert (last.state, last.next_attempt) == (JobState.FAILED, False)
    assert last.unneeded == (), "the cleanup deletes all of them"


def test_a_failed_replica_with_retries_left_decides_nothing_and_is_due_after_its_delay() -> None:
    document = taskset(retryPolicy={"retry": True, "maxRetryCount": 1, "delay": 5})
    found = decision(document, [report(0, F)])
    assert (found.state, found.retry_at) == (None, NOON + timedelta(minutes=1, seconds=5))


def test_replicas_that_a_decided_role_no_longer_needs_are_deleted_while_the_job_goes_on() -> None:
    document = taskset_of(
        role("ps", container(), replicas=2, policies={"completionPolicy": {"minSucceeded": 1}}),
        role("worker", container()),
    )
    found = decision(document, [report(0, S, "ps"), report(1, R, "ps"), report(0, R)])
    assert found.state is None
    assert found.unneeded == (ReplicaKey("ps", 1, 0),)


@pytest.mark.parametrize(
    ("reports", "reason"),
    [
        ([], ""),
        ([report(0, W)], ""),
        ([report(0, W), report(1, W, reason="ImagePullBackOff")], "worker-1 waits: ImagePullBackOff"),
        (
            [report(1, W, reason="Pending"), report(0, W, reason="Unschedulable", diagnostics="no node")],
            "worker-0 waits: Unschedulable: no node",
        ),
        ([report(0, W, reason="Unschedulable"), report(1, R)], ""),
        ([report(0, S), report(1, W, reason="Unschedulable")], "worker-1 waits: Unschedulable"),
        ([report(0, F, reason="Error")], ""),
    ],
)
def test_a_job_waits_for_the_reason_of_its_first_waiting_replica_while_none_runs(
    reports: Sequence[ReplicaReport], reason: str
) -> None:
    assert waiting_reason(taskset(replicas=2), reports) == reason


def test_the_reason_of_a_waiting_job_has_a_limit() -> None:
    long = report(0, W, reason="Unschedulable", diagnostics="x" * 10_000)
    assert len(waiting_reason(taskset(), [long])) < 600
