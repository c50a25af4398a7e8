"""The cursor: claiming, finishing, and duplicate, late and lost messages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import func, select, update

from api.schemas.features import FeatureBody
from api.schemas.jobs import Submit
from pipeline_core.auth.actor import Actor
from pipeline_core.auth.idempotency import RepeatableRequest
from pipeline_core.clusters.base import Observation, ReplicaReport
from pipeline_core.common import failpoints
from pipeline_core.common.clock import now
from pipeline_core.common.failpoints import FailpointReached, Point
from pipeline_core.database import transaction
from pipeline_core.database.models import Delivery, Event, Job, JobDocument, Replica, Step
from pipeline_core.errors import WrongParameter
from pipeline_core.features import registry, snapshot
from pipeline_core.features.snapshot import Snapshot
from pipeline_core.jobs import claims, control, cursor, leases, sweep, trail_rows
from pipeline_core.jobs.claims import AlreadyAdvanced, NotOwner
from pipeline_core.jobs.cursor import Continue, Done, Finished, Parked
from pipeline_core.jobs.leases import LeaseLost
from pipeline_core.jobs.submission import submit
from pipeline_core.plugins.types import PluginType
from pipeline_core.runtime import restart
from pipeline_core.settings import Settings
from pipeline_core.stages import launch
from pipeline_core.stages.names import Stage
from pipeline_core.stages.outcomes import (
    Advance,
    ClaimedStep,
    Crash,
    Fail,
    Launched,
    Postpone,
    Stop,
    Suspend,
    TrailEntry,
    TrailOutcome,
)
from pipeline_core.states import ReplicaState

ADMIN = Actor(name="admin", admin=True)
pytestmark = pytest.mark.usefixtures("service_settings")


def taskset(**spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "busybox", "command": ["true"]}
    role = {"name": "worker", "template": {"spec": {"containers": [container]}}, **spec}
    return {"apiVersion": "octopus.openi.pcl.cn/v1alpha1", "kind": "TaskSet", "metadata": {}, "spec": {"roles": [role]}}


def submitted() -> str:
    """A job whose next step is its translation."""
    raw = {"userID": "u1", "jobName": "train", "jobKind": "Echo", "job": {"kind": "Echo"}}
    return submit(Submit().read(raw), ADMIN)


def submitted_taskset(**spec: Any) -> str:
    """A job that is a TaskSet already, while nothing matches any stage."""
    raw = {"userID": "u1", "jobName": "train", "jobKind": "TaskSet", "job": taskset(**spec)}
    return submit(Submit().read(raw), ADMIN)


def claimed(job_id: str, stage: Stage = Stage.TRANSLATE, epoch: int = 0, owner: str = "w1") -> ClaimedStep:
    claim = claims.claim(job_id, epoch, stage, owner)
    assert isinstance(claim, ClaimedStep), claim
    return claim


def job_of(job_id: str) -> Job:
    with transaction() as session:
        return session.execute(select(Job).where(Job.id == job_id)).scalar_one()


def step_of(job_id: str) -> Step | None:
    with transaction() as session:
        return session.execute(select(Step).where(Step.job_id == job_id)).scalar_one_or_none()


def states(job_id: str) -> list[tuple[int, str]]:
    with transaction() as session:
        rows = session.execute(
            select(Event.sequence, Event.state).where(Event.job_id == job_id).order_by(Event.sequence)
        )
        return [(row.sequence, row.state) for row in rows]


def let_lease_end(job_id: str) -> None:
    with transaction() as session:
        past = func.now() - timedelta(seconds=1)
        session.execute(update(Step).where(Step.job_id == job_id).values(lease_until=past, due_at=past))


def test_a_submitted_job_has_its_first_step_and_its_first_event() -> None:
    job_id = submitted()
    step = step_of(job_id)
    assert step is not None
    assert (step.stage, step.epoch, step.claim_count) == ("translate", 0, 0)
    assert states(job_id) == [(1, "waiting")]


def test_a_step_is_claimed_once() -> None:
    job_id = submitted()
    assert claimed(job_id).claim_count == 1
    assert claims.claim(job_id, 0, Stage.TRANSLATE, "w2") == NotOwner()


def test_a_step_whose_lease_has_ended_is_claimed_again_and_the_first_holder_has_lost_it() -> None:
    job_id = submitted()
    first = claimed(job_id)
    let_lease_end(job_id)
    second = claimed(job_id, owner="w2")
    assert second.claim_count == 2
    with pytest.raises(LeaseLost):
        cursor.finish(first, Advance())
    assert cursor.finish(second, Advance()) == Continue(Stage.LAUNCH)


def lease_of(job_id: str) -> Any:
    step = step_of(job_id)
    assert step is not None
    return step.lease_until


def test_the_leases_that_a_process_holds_are_renewed_together_and_no_others() -> None:
    held, lost, locked = submitted(), submitted(), submitted()
    claims = [claimed(job_id) for job_id in (held, lost, locked)]
    for job_id in (held, lost, locked):
        let_lease_end(job_id)
    of_another = claimed(lost, owner="w2")
    before = {job_id: lease_of(job_id) for job_id in (held, lost, locked)}
    with transaction() as session:
        session.execute(select(Step).where(Step.job_id == locked).with_for_update())
        leases.renew_all(claims)
    assert lease_of(held) > before[held]
    assert lease_of(lost) == before[lost], "another owner holds it"
    assert lease_of(locked) == before[locked], "nobody waits for who has locked it"
    leases.renew_all([claims[2]])
    assert lease_of(locked) > before[locked]
    assert cursor.finish(of_another, Advance()) == Continue(Stage.LAUNCH)


def test_a_released_step_is_as_if_it_had_not_been_claimed() -> None:
    job_id = submitted()
    claim = claimed(job_id)
    leases.release(claim)
    again = claimed(job_id, owner="w2")
    assert again.claim_count == 1
    leases.release(claim)
    assert cursor.finish(again, Advance()) == Continue(Stage.LAUNCH), "only its holder releases it"


def test_a_step_is_handed_over_by_its_holder_alone_and_counts_no_claim() -> None:
    job_id = submitted()
    claimed(job_id)
    assert claims.claim(job_id, 0, Stage.TRANSLATE, "w2", holder="w3") == NotOwner()
    taken = claims.claim(job_id, 0, Stage.TRANSLATE, "w2", holder="w1")
    assert isinstance(taken, ClaimedStep)
    assert taken.claim_count == 1
    assert cursor.finish(taken, Advance()) == Continue(Stage.LAUNCH)


def test_a_worker_that_carries_on_holds_the_next_step_as_if_it_had_claimed_it() -> None:
    job_id = submitted()
    advance = Advance(taskset=taskset(), factors={"p": [{"topic": "p", "advice": 1}]}, namespace="default")
    progress = cursor.finish(claimed(job_id), advance, (Stage.LAUNCH,))
    assert isinstance(progress, Continue)
    carried = progress.claimed
    assert carried is not None
    assert claims.claim(job_id, 0, Stage.LAUNCH, "w2") == NotOwner()
    let_lease_end(job_id)
    read = claimed(job_id, Stage.LAUNCH, owner="w2")
    assert replace(read, owner=carried.owner, claim_count=1) == carried
    assert read.claim_count == 2
    with pytest.raises(LeaseLost):
        cursor.finish(carried, launch.run(carried))


def test_a_stage_that_the_worker_does_not_serve_is_left_to_others() -> None:
    job_id = submitted()
    assert cursor.finish(claimed(job_id), Advance(taskset=taskset()), (Stage.BIND,)) == Continue(Stage.LAUNCH)
    assert claimed(job_id, Stage.LAUNCH, owner="w2").claim_count == 1


def test_a_claim_does_not_count_when_the_plugins_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = submitted()

    def fail(version: int) -> Snapshot:
        raise ValueError("a secret cannot be decrypted")

    with monkeypatch.context() as broken:
        broken.setattr(snapshot, "of_version", fail)
        with pytest.raises(ValueError, match="decrypted"):
            claimed(job_id)
    assert claimed(job_id, owner="w2").claim_count == 1


def test_the_plugin_calls_of_a_stage_are_read_with_its_claim() -> None:
    job_id = submitted()
    entries = [
        TrailEntry(
            plugin_key=f"TemplateTranslator.{name}.platform",
            outcome=TrailOutcome.IGNORED,
            started_at=now(),
            reason='a quote \' and "two"',
            patch=[{"op": "add", "path": "/a", "value": "zero \\u0000"}],
        )
        for name in ("b", "a")
    ]
    cursor.finish(claimed(job_id), Postpone(trail=entries, reason="later", seconds=0))
    assert claimed(job_id, owner="w2").trail == tuple(entries)


def test_the_cursor_skips_stages_that_nothing_matches() -> None:
    job_id = submitted()
    assert cursor.finish(claimed(job_id), Advance(taskset=taskset())) == Continue(Stage.LAUNCH)
    assert job_of(job_id).stage == "launch"


def test_the_first_step_of_a_job_without_matching_plugins_is_its_launch() -> None:
    step = step_of(submitted_taskset())
    assert step is not None
    assert step.stage == "launch"


def test_a_message_of_a_finished_stage_lets_the_chain_continue() -> None:
    job_id = submitted()
    cursor.finish(claimed(job_id), Advance())
    assert claims.claim(job_id, 0, Stage.TRANSLATE, "w2") == AlreadyAdvanced()
    assert claims.claim(job_id, 1, Stage.TRANSLATE, "w2") == NotOwner()
    assert claims.claim("j00000000000000000000000000", 0, Stage.TRANSLATE, "w2") == NotOwner()


def test_a_job_on_the_null_cluster_runs_and_succeeds_with_its_launch() -> None:
    job_id = submitted_taskset(replicas=2)
    claim = claimed(job_id, Stage.LAUNCH)
    assert cursor.finish(claim, launch.run(claim)) == Done()
    job = job_of(job_id)
    assert (job.state, job.stage, job.exit_code, job.cleanup) == ("succeeded", "cluster", 0, "done")
    assert states(job_id) == [(1, "waiting"), (2, "running"), (3, "succeeded")]
    assert step_of(job_id) is None
    with transaction() as session:
        assert session.execute(select(func.count()).where(Replica.job_id == job_id)).scalar_one() == 2


def test_a_suspended_job_has_no_step_and_a_resumed_one_has_the_same_stage_in_a_new_epoch() -> None:
    job_id = submitted()
    suspended = Suspend(trail=(), plugin_key="AccessGate.quota.platform", reason="no quota")
    progress = cursor.finish(claimed(job_id), suspended)
    assert isinstance(progress, Parked)
    assert progress.stages[0] is Stage.TRANSLATE
    job = job_of(job_id)
    assert (job.state, job.suspended_by, job.epoch) == ("suspended", "AccessGate.quota.platform", progress.epoch)
    assert step_of(job_id) is None
    control.resume(job_id, ADMIN, reason="quota granted")
    step = step_of(job_id)
    assert step is not None
    assert (step.stage, step.epoch) == ("translate", progress.epoch + 1)
    assert claims.claim(job_id, 0, Stage.TRANSLATE, "late") == NotOwner()
    assert states(job_id) == [(1, "waiting"), (2, "suspended"), (3, "waiting")]


def test_a_stop_invalidates_a_claimed_step() -> None:
    job_id = submitted()
    claim = claimed(job_id)
    control.stop(job_id, ADMIN, reason="changed my mind")
    with pytest.raises(LeaseLost):
        cursor.finish(claim, Advance())
    job = job_of(job_id)
    assert (job.state, job.reason, job.cleanup) == ("stopped", "changed my mind", None)
    assert states(job_id)[-1] == (2, "stopped")


def test_cleanup_after_a_stop_during_the_launch_waits_until_the_launch_lease_ends() -> None:
    job_id = submitted()
    cursor.finish(claimed(job_id), Advance())
    claimed(job_id, Stage.LAUNCH)
    control.stop(job_id, ADMIN)
    job = job_of(job_id)
    assert job.cleanup == "pending"
    assert job.cleanup_after is not None


def test_a_postponed_step_is_not_claimed_before_its_time_and_found_when_it_is_due() -> None:
    job_id = submitted()
    cursor.finish(claimed(job_id), Postpone(reason="the translator is away", seconds=3600))
    assert claims.claim(job_id, 0, Stage.TRANSLATE, "w2") == NotOwner()
    assert job_of(job_id).reason == "the translator is away"
    with transaction() as session:
        past = func.now() - timedelta(seconds=1)
        session.execute(update(Step).where(Step.job_id == job_id).values(not_before=past, due_at=past))
    due = [step.job_id for step in sweep.due_steps(1000)]
    assert job_id in due
    assert job_id not in [step.job_id for step in sweep.due_steps(1000)], "its next look is put off"
    assert claimed(job_id).claim_count == 1


def test_a_failed_stage_fails_the_job() -> None:
    job_id = submitted()
    assert cursor.finish(claimed(job_id), Fail(trail=(), reason="no translator")) == Done()
    job = job_of(job_id)
    assert (job.state, job.reason, job.stage) == ("failed", "no translator", "translate")
    assert job.finished_at is not None


@pytest.fixture
def subscriber() -> Iterator[str]:
    plugin = {"pluginType": "LifeHook", "callAddress": "http://127.0.0.1:9/hook"}
    body = {"name": "outcomes", "author": "tests", "enabled": True, "plugins": [plugin]}
    with transaction() as session:
        registry.register(session, FeatureBody().read(body), ADMIN)
        registry.switch(session, "outcomes", True, ADMIN)
    yield "LifeHook.outcomes.tests"
    with transaction() as session:
        registry.delete(session, "outcomes", ADMIN)


def test_a_plugin_that_is_registered_while_a_stage_runs_is_not_passed_over() -> None:
    claim = claimed(submitted())
    body = FeatureBody().read(
        {
            "name": "late",
            "author": "platform",
            "enabled": True,
            "plugins": [{"pluginType": "AccessGate", "callAddress": "http://localhost:1/gate"}],
        }
    )
    with transaction() as session:
        registry.register(session, body, ADMIN)
    try:
        progress = cursor.finish(claim, Advance(taskset=taskset()), [Stage.GATES])
        assert isinstance(progress, Continue)
        assert progress.stage is Stage.GATES
        assert progress.claimed is not None
        assert [
            plugin.feature for plugin in progress.claimed.plugins.matching(PluginType.ACCESS_GATE, claim.header)
        ] == ["late"]
    finally:
        with transaction() as session:
            registry.delete(session, "late", ADMIN)


def test_every_outcome_is_written_with_its_plugin_calls_its_event_and_its_deliveries(subscriber: str) -> None:
    entry = TrailEntry(
        plugin_key="AccessGate.quota.platform",
        outcome=TrailOutcome.ANSWERED,
        started_at=now(),
        decision="suspend",
        reason='a quote \' and "two"',
        factors=[{"topic": "p", "advice": 1}],
        patch=[{"op": "add", "path": "/a", "value": "zero \\u0000"}],
    )
    outcomes = (
        Suspend(trail=[entry], plugin_key=entry.plugin_key, reason="no quota", seconds=60, on_timeout="stop"),
        Stop(trail=[entry], reason="no"),
        Fail(trail=[entry, entry], reason="no"),
        Postpone(trail=[entry], reason="later", seconds=60),
        Crash(reason="later", seconds=60),
    )
    steps = [claimed(submitted(), owner=f"w{number}") for number in range(len(outcomes))]
    progress = cursor.finish_together([*map(Finished, steps, outcomes)])
    assert None not in progress
    after = [job_of(step.job_id).state for step in steps]
    assert after == ["suspended", "stopped", "failed", "waiting", "waiting"]
    with transaction() as session:
        for step, outcome in zip(steps, outcomes, strict=True):
            trail = trail_rows.read(session, step.job_id, Stage.TRANSLATE)
            assert list(trail) == list(getattr(outcome, "trail", ()))
            delivered = select(Event.state).join(Delivery, Delivery.event_id == Event.id)
            found = delivered.where(Delivery.subject_id == step.job_id, Delivery.plugin_key == subscriber)
            assert sorted(session.scalars(found)) == sorted(state for _, state in states(step.job_id))
    assert job_of(steps[0].job_id).suspended_until is not None


def test_outcomes_are_written_together_but_for_steps_that_are_locked_or_lost() -> None:
    launched, failed, locked, lost = (submitted_taskset() for _ in range(4))
    steps = {job_id: claimed(job_id, Stage.LAUNCH, owner=f"w/{job_id}") for job_id in (launched, failed, locked, lost)}
    finished = [Finished(step, launch.run(step)) for step in steps.values()]
    finished[1] = Finished(steps[failed], Fail(trail=(), reason="refused"))
    let_lease_end(lost)
    claimed(lost, Stage.LAUNCH, owner="another")
    with transaction() as session:
        session.execute(select(Job).where(Job.id == locked).with_for_update())
        assert cursor.finish_together(finished) == [Done(), Done(), None, None]
    assert [job_of(job_id).state for job_id in steps] == ["succeeded", "failed", "waiting", "waiting"]
    assert states(launched) == [(1, "waiting"), (2, "running"), (3, "succeeded")]
    assert cursor.finish(finished[2].step, finished[2].outcome) == Done()
    with pytest.raises(LeaseLost):
        cursor.finish(finished[3].step, finished[3].outcome)


def test_of_outcomes_that_are_half_written_nothing_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [claimed(submitted_taskset(), Stage.LAUNCH, owner=f"w{number}") for number in range(3)]
    finished = [Finished(step, launch.run(step)) for step in steps]

    def fail(point: Point, *_: str) -> None:
        if point is Point.STAGE_FINISHING:
            raise FailpointReached

    with monkeypatch.context() as broken:
        broken.setattr(failpoints, "reach", fail)
        with pytest.raises(FailpointReached):
            cursor.finish_together(finished)
    assert [states(step.job_id) for step in steps] == [[(1, "waiting")]] * 3
    assert cursor.finish_together(finished) == [Done()] * 3


def test_a_launch_whose_replicas_have_failed_already_is_launched_again_by_its_retry_policy() -> None:
    document = taskset()
    document["spec"]["retryPolicy"] = {"retry": True, "maxRetryCount": 1, "delay": 3600}
    raw = {"userID": "u1", "jobName": "train", "jobKind": "TaskSet", "job": document}
    job_id = submit(Submit().read(raw), ADMIN)
    claim = claimed(job_id, Stage.LAUNCH)
    failed = ReplicaReport("worker", 0, ReplicaState.FAILED, exit_code=1)
    assert cursor.finish(claim, Launched(observation=Observation(job_id, 0, (failed,)))) == Done()
    job, step = job_of(job_id), step_of(job_id)
    assert (job.state, job.stage, job.attempt) == ("waiting", "launch", 1)
    assert step is not None
    assert (step.stage, step.epoch, step.lease_owner) == ("launch", job.epoch, None)


def test_the_same_idempotency_key_gives_the_same_job(service_settings: Settings) -> None:
    raw = {"userID": "u1", "jobName": "train", "jobKind": "TaskSet", "job": taskset()}
    first = submit(Submit().read(raw), ADMIN, repeatable=RepeatableRequest("k1", "a"))
    assert submit(Submit().read(raw), ADMIN, repeatable=RepeatableRequest("k1", "a")) == first
    with transaction() as session:
        assert session.execute(select(func.count()).where(JobDocument.job_id == first)).scalar_one() == 1


def test_pods_that_are_submitted_are_held_to_the_policy_where_one_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    document = taskset()
    document["spec"]["roles"][0]["template"]["spec"]["hostNetwork"] = True
    raw = {"userID": "u1", "jobName": "train", "jobKind": "TaskSet", "job": document}
    Submit().read(raw)
    monkeypatch.setenv("PIPELINE_POD_POLICY_SUBMITTED", "baseline")
    restart()
    with pytest.raises(WrongParameter, match="hostNetwork"):
        Submit().read(raw)
