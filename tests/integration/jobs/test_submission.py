"""Where a submitted job begins."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import event, select

from api.schemas.features import FeatureBody
from api.schemas.jobs import Submit
from pipeline_core.auth.actor import Actor
from pipeline_core.database import transaction, wakeups
from pipeline_core.database.engine import engine
from pipeline_core.database.models import Delivery, Event, Job, Step
from pipeline_core.database.wakeups import StepDue, Wakeup
from pipeline_core.features import registry, snapshot
from pipeline_core.jobs import claims
from pipeline_core.jobs.submission import submit
from pipeline_core.stages.names import Stage
from pipeline_core.stages.outcomes import ClaimedStep
from tests.builders import container, feature, plugin, role, taskset_of

ADMIN = Actor(name="admin", admin=True)
pytestmark = pytest.mark.usefixtures("service_settings")


def submitted() -> str:
    taskset = taskset_of(role("main", container("true")))
    return submit(Submit().read({"userID": "u1", "jobName": "train", "jobKind": "TaskSet", "job": taskset}), ADMIN)


def test_a_job_begins_where_the_registry_of_now_says_although_this_process_knows_an_older_one() -> None:
    with transaction() as session:
        older, database = snapshot.current(session), session.get_bind()
        registry.register(session, FeatureBody().read(feature(enabled=True)), ADMIN)
    snapshot._latest()[database] = older
    published: list[Wakeup] = []
    wakeups.publish_with(published.extend)
    job_id = submitted()
    with transaction() as session:
        stages = session.execute(select(Job.stage, Step.stage).join(Step, Step.job_id == Job.id)).one()
    assert tuple(stages) == (Stage.GATES, Stage.GATES)
    assert published == [StepDue(job_id, 0, Stage.GATES)]
    assert isinstance(claims.claim(job_id, 0, Stage.GATES, "w1"), ClaimedStep)


def test_a_job_whose_first_event_no_subscriber_gets_is_stored_without_a_session() -> None:
    with transaction() as session:
        snapshot.current(session)
    published: list[Wakeup] = []
    wakeups.publish_with(published.extend)
    begun: list[Any] = []

    def note(connection: Any) -> None:
        begun.append(connection)

    event.listen(engine(), "begin", note)
    job_id = submitted()
    event.remove(engine(), "begin", note)
    assert begun == []
    with transaction() as session:
        job = session.get_one(Job, job_id)
        written = session.scalars(select(Event).where(Event.job_id == job_id)).one()
        step = session.get_one(Step, job_id)
    assert published == [StepDue(job_id, 0, step.stage)]
    assert (job.state, job.epoch, job.event_sequence, job.submitted_by) == ("waiting", 0, 1, "admin")
    assert (written.sequence, written.state, written.previous_state) == (1, "waiting", "")
    assert (step.epoch, step.claim_count, step.unreachable) == (0, 0, {})


@pytest.mark.parametrize("is_known", [True, False])
def test_a_subscriber_gets_the_first_event_also_where_this_process_does_not_know_it_yet(is_known: bool) -> None:
    hook = plugin("LifeHook", "http://127.0.0.1:9/hook")
    with transaction() as session:
        older, database = snapshot.current(session), session.get_bind()
        registry.register(session, FeatureBody().read(feature("listening", hook, enabled=True)), ADMIN)
    if is_known:
        with transaction() as session:
            snapshot.current(session)
    else:
        snapshot._latest()[database] = older
    job_id = submitted()
    with transaction() as session:
        found = session.scalars(select(Delivery).where(Delivery.subject_id == job_id)).all()
        registry.delete(session, "listening", ADMIN)
    assert [(delivery.plugin_key, delivery.sequence) for delivery in found] == [("LifeHook.listening.platform", 1)]
