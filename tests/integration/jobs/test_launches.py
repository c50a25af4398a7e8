"""Launching jobs that wait for it beside the one that a message names."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import func, select, text, update

from api.schemas.features import FeatureBody
from pipeline_core.clusters.base import ClusterUnavailable, LaunchRequest, Observation, ReplicaReport
from pipeline_core.clusters.factory import cluster
from pipeline_core.common import failpoints
from pipeline_core.common.clock import now
from pipeline_core.common.failpoints import FailpointReached, Point
from pipeline_core.database import connected, transaction
from pipeline_core.database.models import Delivery, Job, Replica, RunRow, Step
from pipeline_core.database.prepared import texts
from pipeline_core.features import registry
from pipeline_core.flows.runs import admission, progress, run_signals
from pipeline_core.jobs import changes, claims, control, cursor, replicas, rollup
from pipeline_core.jobs.claims import NotOwner
from pipeline_core.jobs.cursor import Done
from pipeline_core.stages import launch
from pipeline_core.stages.launch import pace
from pipeline_core.stages.names import Stage
from pipeline_core.stages.outcomes import Launched
from pipeline_core.states import ReplicaState
from tests.builders import flow_entry
from tests.flows import begin, store
from tests.integration.jobs.test_contention import somebody_waits_for_a_lock
from tests.integration.jobs.test_cursor import ADMIN, claimed, job_of, states, step_of, submitted, submitted_taskset
from tests.statements import counted_statements
from tests.waiting import HANG_SECONDS, wait_for
from workers.tasks import stages

pytestmark = pytest.mark.usefixtures("service_settings", "fast_launches")


@pytest.fixture
def fast_launches() -> None:
    pace().took(0.001)


def message(job_id: str) -> None:
    task: Any = SimpleNamespace(request=SimpleNamespace(hostname="stages1@here", chain=None))
    stages.run_stage(task, job_id, 0, Stage.LAUNCH)


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


def test_a_launch_by_itself_is_claimed_and_written_by_one_statement_each() -> None:
    job_id = submitted_taskset()
    with counted_statements() as counted:
        claim = claimed(job_id, Stage.LAUNCH)
        cursor.finish(claim, launch.run(claim))
    assert states(job_id) == [(1, "waiting"), (2, "running"), (3, "succeeded")]
    assert len(counted) == 2


def test_a_launch_of_a_task_of_a_run_signals_the_run_by_the_statement_that_writes_it() -> None:
    run_signals.listen()
    run_id = begin(store(flow_entry("launched", {"only": []})))
    with transaction() as session:
        admission.admit(session.get_one(RunRow, run_id).flow_id)
    progress.advance(run_id)
    with transaction() as session:
        job_id = session.scalars(select(Job.id).where(Job.run_id == run_id)).one()
    with counted_statements() as counted:
        claim = claimed(job_id, Stage.LAUNCH)
        cursor.finish(claim, launch.run(claim))
    assert states(job_id) == [(1, "waiting"), (2, "running"), (3, "succeeded")]
    assert len(counted) == 2
    progress.advance(run_id)
    with transaction() as session:
        assert session.get_one(RunRow, run_id).state == "succeeded"


def test_the_statements_of_a_launch_are_soon_planned_no_more() -> None:
    with connected() as connection:
        connection.execute(text("DEALLOCATE ALL"))
    for _ in range(8):
        claim = claimed(submitted_taskset(), Stage.LAUNCH)
        cursor.finish(claim, launch.run(claim))
    with connected() as connection:
        found = connection.execute(text("SELECT name, custom_plans, generic_plans FROM pg_prepared_statements"))
        plans = {row.name: (row.custom_plans, row.generic_plans) for row in found}
    writing = texts(changes.LAUNCHING.text)[0].split()[1]
    assert plans[writing] == (5, 3)


def test_a_launch_that_is_written_while_somebody_observes_it_loses_nothing_of_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job_id = submitted_taskset(replicas=2)
    claim = claimed(job_id, Stage.LAUNCH)
    running = ReplicaReport("worker", 0, ReplicaState.RUNNING, started_at=now())
    waiting = tuple(ReplicaReport("worker", index, ReplicaState.WAITING) for index in range(2))
    read, written = replicas.read, []

    def read_late(*arguments: Any) -> Any:
        if not written:
            outcome = Launched(observation=Observation(job_id, 0, waiting))
            written.append(pool.submit(cursor.finish, claim, outcome))
            wait_for(somebody_waits_for_a_lock, "the launch to wait for the observation")
        return read(*arguments)

    monkeypatch.setattr(replicas, "read", read_late)
    monkeypatch.setattr(cluster(), "cached_observation", lambda job_id: Observation(job_id, 0, (running,)))
    with ThreadPoolExecutor(1) as pool:
        assert rollup.apply_cached_observations([job_id]) == []
        assert written[0].result(HANG_SECONDS) == Done()
    assert states(job_id) == [(1, "waiting"), (2, "running")]


def test_a_launch_is_delivered_to_who_has_subscribed_since_its_claim() -> None:
    claim = claimed(submitted_taskset(), Stage.LAUNCH)
    plugin = {"pluginType": "LifeHook", "callAddress": "http://127.0.0.1:9/hook"}
    body = {"name": "late", "author": "tests", "enabled": True, "plugins": [plugin]}
    with transaction() as session:
        registry.register(session, FeatureBody().read(body), ADMIN)
    try:
        cursor.finish(claim, launch.run(claim))
        with transaction() as session:
            query = select(Delivery.sequence).where(Delivery.subject_id == claim.job_id)
            assert sorted(session.scalars(query)) == [2, 3]
    finally:
        with transaction() as session:
            registry.delete(session, "late", ADMIN)


@pytest.mark.parametrize("known", [True, False])
def test_replicas_that_have_not_ended_when_their_job_does_are_stopped(known: bool) -> None:
    job_id = submitted_taskset(replicas=2, completionPolicy={"minSucceeded": 1})
    claim = replace(claimed(job_id, Stage.LAUNCH), observed=known)
    reports = [ReplicaReport("worker", index, ReplicaState.RUNNING, started_at=now()) for index in range(2)]
    reports[0] = replace(reports[0], state=ReplicaState.SUCCEEDED, exit_code=0, finished_at=now())
    cursor.finish(claim, Launched(observation=Observation(job_id, 0, tuple(reports))))
    assert job_of(job_id).state == "succeeded"
    with transaction() as session:
        query = select(Replica.state, Replica.finished_at.is_not(None)).where(Replica.job_id == job_id)
        assert [tuple(row) for row in session.execute(query.order_by(Replica.index))] == [
            ("succeeded", True), ("stopped", True),
        ]  # fmt: skip


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
