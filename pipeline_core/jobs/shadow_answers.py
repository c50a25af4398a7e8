"""The answers of shadows: what they are asked about stored jobs, and the rows of what they answered."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import jsonpatch
import structlog
from sqlalchemy import select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from pipeline_core.database.models import Job, ShadowAnswer, table
from pipeline_core.database.prepared import Prepared
from pipeline_core.database.rows import Passed
from pipeline_core.errors import NotFound
from pipeline_core.features import snapshot
from pipeline_core.features.snapshot import Snapshot
from pipeline_core.jobs import blame, packets
from pipeline_core.jobs.trail_rows import Calls
from pipeline_core.plugins.packet import Packet
from pipeline_core.stages import shadows
from pipeline_core.stages.names import Stage
from pipeline_core.stages.outcomes import TrailEntry

log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class DecidedStage:
    """What shadows are asked about a stage of a job, and what was decided there. `answered` are the keys of shadows whose answers
    are stored already."""

    job_id: str
    stage: Stage
    namespace: str
    request_id: str
    packet: Packet
    calls: Calls
    answered: Collection[str]
    plugins: Snapshot


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """A shadow's answer, and the ID of the plugin call that it is compared with, if there is one."""

    job_id: str
    stage: Stage
    shadow_of: str
    trail_id: int | None
    agrees: bool | None
    given: TrailEntry


def read(session: Session, stages: Collection[tuple[str, Stage]]) -> dict[tuple[str, Stage], DecidedStage]:
    """What shadows are asked about these stages of jobs, by a few statements for all of them. Jobs that are gone are left out,
    and those whose packet cannot be built again."""
    ids = {job_id for job_id, _ in stages}
    jobs = packets.recorded(session, ids, {stage for _, stage in stages})
    order, plugins = blame.positions(session), snapshot.current(session)
    answered = defaultdict(set)
    rows = select(ShadowAnswer.job_id, ShadowAnswer.stage, ShadowAnswer.plugin_key).where(ShadowAnswer.job_id.in_(ids))
    for job_id, stage, plugin_key in session.execute(rows):
        answered[job_id, Stage(stage)].add(plugin_key)
    found = {}
    for job_id, stage in stages:
        if (job := jobs.get(job_id)) is None:
            continue
        try:
            sent = packets.sent(job, stage, order)
        except (NotFound, jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as error:
            log.info(
                "shadows not asked: the packet cannot be built again", job_id=job_id, stage=stage, error=str(error)
            )
            continue
        found[job_id, stage] = DecidedStage(
            job_id=job_id,
            stage=stage,
            namespace=job.namespace,
            request_id=job.request_id,
            packet=Packet(sent.factors, sent.header, sent.job),
            calls=job.calls[stage],
            answered=answered[job_id, stage],
            plugins=plugins,
        )
    return found


def ask(decided: DecidedStage, plugin_key: str, shadow_of: str) -> Answer | None:
    """Ask a shadow; None when its answer is stored already or the plugin is gone.

    Raises CircuitOpen and ConcurrencyLimit when it is not asked now.
    """
    # One that was promoted meanwhile is asked all the same.
    plugin = decided.plugins.shadow(plugin_key) or decided.plugins.get(plugin_key)
    if plugin is None or plugin_key in decided.answered:
        return None
    given = shadows.ask(plugin, decided.job_id, decided.stage, decided.packet, decided.namespace, decided.request_id)
    ids, calls = list(decided.calls), list(decided.calls.values())
    found = shadows.deciding(plugin.type, calls, shadow_of)
    return Answer(
        job_id=decided.job_id,
        stage=decided.stage,
        shadow_of=shadow_of,
        trail_id=None if found is None else ids[found],
        agrees=shadows.agrees(plugin.type, None if found is None else calls[found], given),
        given=given,
    )


def write(session: Session, answers: Collection[Answer]) -> None:
    """Store answers of shadows, each once; not of jobs that have been deleted.

    The commit does not wait for the disk: a crash of PostgreSQL may lose the last of them.
    """
    _INSERT.execute(session.connection(), _GIVEN.parameters([_row(answer) for answer in answers]))
    session.execute(text("SET LOCAL synchronous_commit TO off"))


def _row(answer: Answer) -> dict[str, Any]:
    given = {name: getattr(answer.given, name) for name in TrailEntry.__slots__ if name != "call_number"}
    return {
        "job_id": answer.job_id,
        "stage": answer.stage,
        "shadow_of": answer.shadow_of,
        "trail_id": answer.trail_id,
        "agrees": answer.agrees,
        **given,
    }


_ANSWER, _JOB = table(ShadowAnswer), table(Job)
_COLUMNS = tuple(column.name for column in _ANSWER.columns if not column.primary_key)
_GIVEN = Passed("given", (_ANSWER.c[name] for name in _COLUMNS))


def _insert() -> Prepared:
    jobs = select(_JOB.c.id).where(_JOB.c.id.in_(select(_GIVEN.column("job_id")))).order_by(_JOB.c.id)
    present = jobs.with_for_update(read=True, key_share=True).cte("present")
    rows = select(*map(_GIVEN.column, _COLUMNS)).join(present, present.c.id == _GIVEN.column("job_id"))
    return Prepared(
        insert(_ANSWER)
        .from_select(_COLUMNS, rows, include_defaults=False)
        .on_conflict_do_nothing(index_elements=["job_id", "stage", "plugin_key"])
    )


_INSERT = _insert()
