"""The answers of shadows: what one is asked about a stored job, and the rows of what it answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jsonpatch
import structlog
from sqlalchemy import exists, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from pipeline_core.database import transaction
from pipeline_core.database.models import Job, ShadowAnswer, TrailRow
from pipeline_core.errors import NotFound
from pipeline_core.features import snapshot
from pipeline_core.features.snapshot import RegisteredPlugin
from pipeline_core.jobs import blame, packets, trail_rows
from pipeline_core.plugins.packet import Packet
from pipeline_core.stages import shadows
from pipeline_core.stages.names import Stage
from pipeline_core.stages.outcomes import TrailEntry

log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class ShadowQuestion:
    """What a shadow is asked about a job's stage, and the plugin call that its answer is compared with, with its ID."""

    plugin: RegisteredPlugin
    shadow_of: str
    job_id: str
    stage: Stage
    packet: Packet
    namespace: str
    request_id: str
    decided: TrailEntry | None
    trail_id: int | None


def answer(job_id: str, stage: Stage, plugin_key: str, shadow_of: str) -> None:
    """Ask a shadow about a job's stage, and store its answer, unless that is stored already or the job or the plugin is gone.

    Raises CircuitOpen and ConcurrencyLimit when it is not asked now; Unavailable.
    """
    with transaction() as session:
        question = read(session, job_id, stage, plugin_key, shadow_of)
    if question is None:
        return
    given = shadows.ask(question.plugin, job_id, stage, question.packet, question.namespace, question.request_id)
    agrees = shadows.agrees(question.plugin.type, question.decided, given)
    with transaction() as session:
        write(session, question, given, agrees)


def read(session: Session, job_id: str, stage: Stage, plugin_key: str, shadow_of: str) -> ShadowQuestion | None:
    """What a shadow is to be asked; None when there is nothing to ask, or nobody."""
    plugins = snapshot.current(session)
    # One that was promoted meanwhile is asked all the same.
    plugin = plugins.shadow(plugin_key) or plugins.get(plugin_key)
    job = session.execute(
        select(Job.kind, Job.namespace, Job.request_id).where(
            Job.id == job_id,
            ~exists().where(
                ShadowAnswer.job_id == Job.id, ShadowAnswer.stage == stage, ShadowAnswer.plugin_key == plugin_key
            ),
        )
    ).one_or_none()
    if plugin is None or job is None:
        return None
    try:
        sent = packets.sent(session, job_id, job.kind, job.namespace, stage, blame.positions(session))
    except (NotFound, jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as error:
        log.info("shadow not asked: the packet cannot be built again", plugin=plugin_key, error=str(error))
        return None
    calls = trail_rows.read(session, job_id, stage)
    found = shadows.deciding(plugin.type, calls, shadow_of)
    ids = session.scalars(
        select(TrailRow.id).where(TrailRow.job_id == job_id, TrailRow.stage == stage).order_by(TrailRow.id)
    ).all()
    return ShadowQuestion(
        plugin=plugin,
        shadow_of=shadow_of,
        job_id=job_id,
        stage=stage,
        packet=Packet(sent.factors, sent.header, sent.job),
        namespace=job.namespace,
        request_id=job.request_id,
        decided=None if found is None else calls[found],
        trail_id=None if found is None else ids[found],
    )


def write(session: Session, question: ShadowQuestion, given: TrailEntry, agrees: bool | None) -> None:
    """Store a shadow's answer, once; not of a job that has been deleted."""
    kept = select(Job.id).where(Job.id == question.job_id).with_for_update(read=True, key_share=True)
    if session.scalar(kept) is None:
        return
    row: dict[str, Any] = {name: getattr(given, name) for name in TrailEntry.__slots__ if name != "call_number"}
    session.execute(
        insert(ShadowAnswer)
        .values(
            job_id=question.job_id,
            stage=question.stage,
            shadow_of=question.shadow_of,
            trail_id=question.trail_id,
            agrees=agrees,
            **row,
        )
        .on_conflict_do_nothing(index_elements=["job_id", "stage", "plugin_key"])
    )
