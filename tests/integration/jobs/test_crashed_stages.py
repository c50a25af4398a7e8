"""A stage that ends with an unexpected exception: the job waits, says why, and fails with that reason in the end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from celery.exceptions import Ignore
from sqlalchemy import select, update

from pipeline_core.database import transaction
from pipeline_core.database.models import Job, Step
from pipeline_core.jobs import rollup
from pipeline_core.settings import settings
from pipeline_core.stages.names import Stage
from tests.integration.jobs.test_cursor import submitted_taskset
from workers import stage_run
from workers.tasks import stages

pytestmark = pytest.mark.usefixtures("service_settings")


def run_launch(job_id: str) -> None:
    """Run the launch stage as soon as it is due."""
    with transaction() as session:
        session.execute(update(Step).where(Step.job_id == job_id).values(not_before=None))
    task: Any = SimpleNamespace(request=SimpleNamespace(hostname="stages1@here", chain=None))
    try:
        stages.run_stage(task, job_id, 0, Stage.LAUNCH)
    except Ignore:
        return


def state_of(job_id: str) -> tuple[str, str]:
    with transaction() as session:
        row = session.execute(select(Job.state, Job.reason).where(Job.id == job_id)).one()
        return row.state, row.reason


def explode(*_: Any, **__: Any) -> Any:
    raise KeyError("password=hush")


@pytest.mark.parametrize("place", ["in the stage", "while its outcome is written"])
def test_the_reason_is_the_exception_and_never_a_worker_that_ended(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = submitted_taskset()
    with monkeypatch.context() as broken:
        if place == "in the stage":
            broken.setitem(stage_run.RUN, Stage.LAUNCH, explode)
        else:
            broken.setattr(rollup, "apply", explode)
        for _ in range(settings().max_claims - 1):
            run_launch(job_id)
            state, reason = state_of(job_id)
            assert state == "waiting"
            assert reason.startswith(
                "The stage launch failed with an unexpected error, KeyError; the worker's log has it"
            )
            assert "hush" not in reason
        run_launch(job_id)
    state, reason = state_of(job_id)
    assert state == "failed"
    assert reason.startswith(f"The stage launch failed {settings().max_claims} times, the last time with an unexpected")
    assert "KeyError" in reason
    assert "worker ended" not in reason


def test_a_job_goes_on_when_the_exception_does_not_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = submitted_taskset()
    with monkeypatch.context() as broken:
        broken.setitem(stage_run.RUN, Stage.LAUNCH, explode)
        run_launch(job_id)
    run_launch(job_id)
    assert state_of(job_id) == ("succeeded", "")
