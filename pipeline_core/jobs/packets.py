"""The packet that the plugins of a stage were sent for a job, built again from what is stored: for tests of plugins."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from pipeline_core.auth.actor import Actor
from pipeline_core.database.models import Job, JobDocument
from pipeline_core.errors import NotFound, WrongParameter
from pipeline_core.jobs import blame, trail_rows
from pipeline_core.jobs.queries import visible
from pipeline_core.jobs.trail_rows import Calls
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


@dataclass(frozen=True, slots=True)
class Recorded:
    """What is stored of a job, from which its packets are built. `calls` are the plugin calls of the stages that were read."""

    id: str
    kind: str
    namespace: str
    request_id: str
    header: Mapping[str, Any]
    submitted: Mapping[str, Any]
    factors: Mapping[str, Any]
    calls: Mapping[Stage, Calls]

    def calls_of(self, stage: Stage) -> Sequence[TrailEntry]:
        """The plugin calls of one of these stages, the oldest first."""
        return tuple(self.calls[stage].values())


def packet(session: Session, job_id: str, stage: Stage, actor: Actor) -> dict[str, Any]:
    """What the plugins of the stage are sent for this job; values of variables whose names look secret are masked.

    Raises NotFound for a job that is not there, or that has not come so far.
    """
    visible(session, job_id, actor)
    return sent(recorded(session, [job_id], [stage])[job_id], stage, blame.positions(session)).shown()


def recorded(session: Session, job_ids: Collection[str], stages: Collection[Stage]) -> dict[str, Recorded]:
    """What packets of these stages are built from, by the IDs of the jobs; of those that there are."""
    read = {*stages, Stage.TRANSLATE, *([Stage.DECORATE] if Stage.BIND in stages else [])}
    calls = trail_rows.read_all(session, job_ids, read)
    columns = (Job.kind, Job.namespace, Job.request_id, JobDocument.header, JobDocument.submitted, JobDocument.factors)
    query = select(Job.id, *columns).join(JobDocument, JobDocument.job_id == Job.id).where(Job.id.in_(job_ids))
    return {
        row["id"]: Recorded(**row, calls={stage: calls[row["id"], stage] for stage in read})
        for row in session.execute(query).mappings()
    }


def sent(job: Recorded, stage: Stage, order: Mapping[str, int]) -> Sent:
    """What the plugins of the stage are sent for this job; `order` are the `blame.positions` of plugins.

    Raises NotFound for a job that has not come so far, and for the translators of a TaskSet.
    """
    early = stage in (Stage.TRANSLATE, Stage.FACTORS)
    body = job.submitted
    if stage is Stage.TRANSLATE and job.kind == document.KIND:
        raise NotFound(f'Job "{job.id}" was submitted as a TaskSet: the plugins of this stage were sent nothing.')
    if stage is not Stage.TRANSLATE:
        translations = blame.answers(job.calls_of(Stage.TRANSLATE), order)
        body = translated(body, job.kind, job.namespace, job.id, translations)
        if stage is Stage.BIND:
            body = _decorated(body, job.id, blame.answers(job.calls_of(Stage.DECORATE), order))
    return Sent({} if early else job.factors, job.header, body)


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
