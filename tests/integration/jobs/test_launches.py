"""Launching jobs that wait for it beside the one that a message names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import event, func, select, update

from pipeline_core.clusters.base import ClusterUnavailable, LaunchRequest, Observation
from pipeline_core.clusters.factory import cluster
from pipeline_core.common import failpoints
from pipeline_core.common.failpoints import FailpointReached, Point
from pipeline_core.database import transaction
from pipeline_core.database.engine import engine
from pipeline_core.database.models import Step
from pipeline_core.jobs import claims, control
from pipeline_core.jobs.claims import NotOwner
from pipeline_core.stages.launch import pace
from pipeline_core.stages.names import Stage
from tests.integration.jobs.test_cursor import ADMIN, claimed, job_of, states, step_of, submitted, submitted_taskset
from workers.tasks import stages

pytestmark = pytest.mark.usefixtures("service_settings", "fast_launches")


@pytest.fixture
def fast_launches() -> None:
    pace().took(0.001)


def message(job_id: str) -> None:
    task: Any = SimpleNamespace(request=SimpleNamespace(hostname="stages1@here", chain=None))
    stages.run_stage(task, job_id, 0, Stage.LAUNCH)


@contextmanager
def counted_statements() -> Iterator[list[str]]:
    found: list[str] = []

    def count(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        found.append(statement)

    event.listen(engine(), "before_cursor_execute", count)
    yield found
    event.remove(engine(), "before_cursor_execute", count)


def test_the_jobs_that_wait_are_launched_together_and_their_messages_cost_no_statement() -> None:
    named, *others = (submitted_taskset() for _ in range(6))
    with counted_statements() as alone:
        message(named)
    assert [job_of(job_id).state for job_id in (named, *others)] == ["succeeded"] * 6
    assert [states(job_id) for job_id in others] == [[(1, "waiting"), (2, "running"), (3, "succeeded")]] * 5
    with counted_statements() as later:
        for job_id in others:
            message(job_id)
    assert later == []
    assert len(alone) < 20, "six jobs take few more statements than one"


def test_nothing_is_claimed_that_is_held_postponed_locked_or_of_another_stage() -> None:
    held, postponed, locked, of_another_stage, waiting = (
        *(submitted_taskset() for _ in range(3)),
        submitted(),
        submitted_taskset(),
    )
    claimed(held, Stage.LAUNCH)
    with transaction() as session:
        session.execute(update(Step).where(Step.job_id == postponed).values(not_before=func.now()))
    with transaction() as session:
        session.execute(select(Step).where(Step.job_id == locked).with_for_update())
        found = {step.job_id: step for step in claims.claim_waiting(Stage.LAUNCH, 1000, "w")}
    assert waiting in found
    assert not found.keys() & {held, postponed, locked, of_another_stage}
    step = step_of(waiting)
    assert step is not None
    assert (step.lease_owner, step.claim_count) == (found[waiting].owner, 1)
    assert claims.claim(waiting, 0, Stage.LAUNCH, "another") == NotOwner()


def test_a_launch_that_fails_and_a_job_that_is_stopped_do_not_hurt_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    named, broken, away, stopped, good = (submitted_taskset() for _ in range(5))
    launch = cluster().launch

    def launched(request: LaunchRequest) -> Observation:
        if request.job_id == broken:
            raise KeyError("boom")
        if request.job_id == away:
            raise ClusterUnavailable("the namespace is being made")
        if request.job_id == stopped:
            control.stop(stopped, ADMIN, reason="changed my mind")
        return launch(request)

    monkeypatch.setattr(cluster(), "launch", launched)
    message(named)
    assert [job_of(job_id).state for job_id in (named, good)] == ["succeeded"] * 2
    assert (job_of(stopped).state, job_of(stopped).reason) == ("stopped", "changed my mind")
    assert "unexpected error, KeyError" in job_of(broken).reason
    assert "cannot be used" in job_of(away).reason
    for job_id in (broken, away):
        step = step_of(job_id)
        assert step is not None
        assert step.lease_owner is None


def test_when_outcomes_cannot_be_written_together_each_is_written_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    named, *others = (submitted_taskset() for _ in range(4))
    reach = failpoints.reach
    reached: list[str] = []

    def fail_once(point: Point, *labels: str) -> None:
        reach(point, *labels)
        if point is Point.STAGE_FINISHING:
            reached.append(point)
            if len(reached) == 3:
                raise FailpointReached

    monkeypatch.setattr(failpoints, "reach", fail_once)
    message(named)
    assert [job_of(job_id).state for job_id in (named, *others)] == ["succeeded"] * 4
    assert [states(job_id)[-1] for job_id in others] == [(3, "succeeded")] * 3
