"""The packet that the plugins of a stage were sent for a job, built again from what is stored: for tests of plugins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from pipeline_core.auth.actor import Actor
from pipeline_core.database.models import Job, JobDocument
from pipeline_core.errors import NotFound, WrongParameter
from pipeline_core.jobs import blame, trail_rows
from pipeline_core.jobs.queries import visible
from pipeline_core.stages.names import Stage
from pipeline_core.stages.outcomes import TrailEntry
from pipeline_core.taskset import document
from pipeline_core.taskset.masking import masked
from pipeline_core.taskset.merge import decorated

STAGES = (Stage.TRANSLATE, Stage.FACTORS, Stage.GATES, Stage.DECORATE, Stage.BIND)
"""The stages whose plugins are sent a packet."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A packet as it was sent, secrets included."""

    factors: Mapping[str, Any]
    header: Mapping[str, Any]
    job: Mapping[str, Any]

    def shown(self) -> dict[str, Any]:
        """The packet with masked values of variables whose names look secret."""
        return {"factors": self.factors, "header": masked(self.header), "job": masked(self.job)}


def packet(session: Session, job_id: str, stage: Stage, actor: Actor) -> dict[str, Any]:
    """What the plugins of the stage are sent for this job; values of variables whose names look secret are masked.

    Raises NotFound for a job that is not there, or that has not come so far.
    """
    job = visible(session, job_id, actor, Job.kind, Job.namespace)
    return sent(session, job_id, job.kind, job.namespace, stage, blame.positions(session)).shown()


def sent(session: Session, job_id: str, kind: str, namespace: str, stage: Stage, order: Mapping[str, int]) -> Sent:
    """What the plugins of the stage are sent for this job; `order` are the `blame.positions` of plugins.

    Raises NotFound for a job that has not come so far, and for the translators of a TaskSet.
    """
    documents = session.scalars(select(JobDocument).where(JobDocument.job_id == job_id)).one()
    early = stage in (Stage.TRANSLATE, Stage.FACTORS)
    job: Mapping[str, Any] = documents.submitted
    if stage is Stage.TRANSLATE and kind == document.KIND:
        raise NotFound(f'Job "{job_id}" was submitted as a TaskSet: the plugins of this stage were sent nothing.')
    if stage is not Stage.TRANSLATE:
        calls = () if kind == document.KIND else trail_rows.read(session, job_id, Stage.TRANSLATE)
        job = translated(job, kind, namespace, job_id, blame.answers(calls, order))
        if stage is Stage.BIND:
            job = _decorated(job, job_id, blame.answers(trail_rows.read(session, job_id, Stage.DECORATE), order))
    return Sent({} if early else documents.factors, documents.header, job)


def translated(
    submitted: Mapping[str, Any], kind: str, namespace: str, job_id: str, translations: Sequence[TrailEntry]
) -> Mapping[str, Any]:
    """The TaskSet before it was decorated; `translations` are the answers of translators. Raises NotFound for a job that has
    none."""
    if kind == document.KIND:
        return document.named(submitted, job_id, namespace)
    patches = [entry.patch for entry in translations if entry.patch]
    if not patches:
        raise NotFound(f'Job "{job_id}" was not translated: the plugins of this stage were sent nothing.')
    answer: Mapping[str, Any] = patches[-1][0]["value"]
    return answer


def _decorated(base: Mapping[str, Any], job_id: str, made: Sequence[TrailEntry]) -> Mapping[str, Any]:
    try:
        return decorated(base, blame.additions(base, made))
    except WrongParameter as error:
        raise NotFound(f'Job "{job_id}" was not bound: {error.message}') from error
