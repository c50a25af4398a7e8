"""The packet that the plugins of a stage were sent for a job, built again from what is stored: for tests of plugins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from pipeline_core.auth.actor import Actor
from pipeline_core.database.models import Job, JobDocument
from pipeline_core.errors import NotFound, WrongParameter
from pipeline_core.jobs import trail_rows
from pipeline_core.jobs.queries import visible
from pipeline_core.stages.decorate import recorded_change
from pipeline_core.stages.names import Stage
from pipeline_core.stages.outcomes import TrailEntry, TrailOutcome
from pipeline_core.taskset import document
from pipeline_core.taskset.masking import masked
from pipeline_core.taskset.merge import decorated

STAGES = (Stage.TRANSLATE, Stage.FACTORS, Stage.GATES, Stage.DECORATE, Stage.BIND)
"""The stages whose plugins are sent a packet."""


def packet(session: Session, job_id: str, stage: Stage, actor: Actor) -> dict[str, Any]:
    """What the plugins of the stage are sent for this job; values of variables whose names look secret are masked.

    Raises NotFound for a job that is not there, or that has not come so far.
    """
    job = visible(session, job_id, actor, Job.kind, Job.namespace)
    documents = session.scalars(select(JobDocument).where(JobDocument.job_id == job_id)).one()
    early = stage in (Stage.TRANSLATE, Stage.FACTORS)
    if stage is Stage.TRANSLATE:
        sent: Mapping[str, Any] = documents.submitted
    else:
        translations = _answered(trail_rows.read(session, job_id, Stage.TRANSLATE))
        sent = translated(documents.submitted, job.kind, job.namespace, job_id, translations)
    if stage is Stage.BIND:
        sent = _decorated(sent, job_id, _answered(trail_rows.read(session, job_id, Stage.DECORATE)))
    return {"factors": {} if early else documents.factors, "header": masked(documents.header), "job": masked(sent)}


def _answered(entries: Sequence[TrailEntry]) -> dict[str, TrailEntry]:
    """The last answer of each plugin, in the plugins' order."""
    return {entry.plugin_key: entry for entry in entries if entry.outcome is TrailOutcome.ANSWERED}


def translated(
    submitted: Mapping[str, Any], kind: str, namespace: str, job_id: str, answers: Mapping[str, TrailEntry]
) -> Mapping[str, Any]:
    """The TaskSet before it was decorated; `answers` are those of translators. Raises NotFound for a job that has none."""
    if kind == document.KIND:
        return document.named(submitted, job_id, namespace)
    patches = [entry.patch for entry in answers.values() if entry.patch]
    if not patches:
        raise NotFound(f'Job "{job_id}" was not translated: the plugins of this stage were sent nothing.')
    answer: Mapping[str, Any] = patches[-1][0]["value"]
    return answer


def _decorated(base: Mapping[str, Any], job_id: str, answers: Mapping[str, TrailEntry]) -> Mapping[str, Any]:
    try:
        return decorated(base, [(key, recorded_change(base, entry)) for key, entry in answers.items()])
    except WrongParameter as error:
        raise NotFound(f'Job "{job_id}" was not bound: {error.message}') from error
