"""Where a submitted job begins."""

from __future__ import annotations

import pytest
from sqlalchemy import select

from api.schemas.features import FeatureBody
from api.schemas.jobs import Submit
from pipeline_core.auth.actor import Actor
from pipeline_core.database import transaction, wakeups
from pipeline_core.database.models import Job, Step
from pipeline_core.database.wakeups import StepDue, Wakeup
from pipeline_core.features import registry, snapshot
from pipeline_core.jobs import claims
from pipeline_core.jobs.submission import submit
from pipeline_core.stages.names import Stage
from pipeline_core.stages.outcomes import ClaimedStep
from tests.builders import container, feature, role, taskset_of

ADMIN = Actor(name="admin", admin=True)
pytestmark = pytest.mark.usefixtures("service_settings")


def test_a_job_begins_where_the_registry_of_now_says_although_this_process_knows_an_older_one() -> None:
    with transaction() as session:
        older, database = snapshot.current(session), session.get_bind()
        registry.register(session, FeatureBody().read(feature(enabled=True)), ADMIN)
    snapshot._latest()[database] = older
    published: list[Wakeup] = []
    wakeups.publish_with(published.extend)
    taskset = taskset_of(role("main", container("true")))
    job_id = submit(Submit().read({"userID": "u1", "jobName": "train", "jobKind": "TaskSet", "job": taskset}), ADMIN)
    with transaction() as session:
        stages = session.execute(select(Job.stage, Step.stage).join(Step, Step.job_id == Job.id)).one()
    assert tuple(stages) == (Stage.GATES, Stage.GATES)
    assert published == [StepDue(job_id, 0, Stage.GATES)]
    assert isinstance(claims.claim(job_id, 0, Stage.GATES, "w1"), ClaimedStep)
