"""The packets of past jobs, with what the plugins of a stage answered to them: to try a plugin on that is not registered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jsonpatch
from sqlalchemy import exists, select
from sqlalchemy.orm import Session

from pipeline_core.auth.actor import Actor
from pipeline_core.database.engine import to_json
from pipeline_core.database.models import Job, TrailRow
from pipeline_core.errors import NotFound
from pipeline_core.jobs import blame, packets, queries
from pipeline_core.jobs.packets import Recorded, Sent
from pipeline_core.jobs.queries import JobFilter
from pipeline_core.stages.names import Stage
from pipeline_core.stages.outcomes import TrailEntry, TrailOutcome
from pipeline_core.taskset.comparison import patch_between
from pipeline_core.taskset.masking import masked

MOST_JOBS = 50
"""How many jobs one page has."""
MOST_BYTES = 4 * 1024 * 1024
"""A page ends with the job that exceeds so many bytes of compact JSON."""
LOOKED_AT = 1000
"""How many jobs are looked at for one page: in most of them plugins of the stage may have decided nothing."""

_DECIDED = (TrailOutcome.ANSWERED, TrailOutcome.REJECTED)


@dataclass(frozen=True, slots=True)
class Page:
    """Jobs, the latest first. `cursor` is the ID of the job after which the next page begins; None on the last page."""

    jobs: Sequence[Mapping[str, Any]]
    cursor: str | None


def page(
    session: Session, stage: Stage, chosen: JobFilter, actor: Actor, *, plugin_key: str = "", cursor: str | None = None
) -> Page:
    """Jobs for which plugins of the stage decided something, each with the packet and with what was decided.

    `plugin_key` leaves only what this plugin decided. Values of variables whose names look secret are masked.
    """
    decided = exists().where(TrailRow.job_id == Job.id, *_conditions(stage, plugin_key))
    columns: tuple[Any, ...] = (Job.id, decided.label("decided"))
    query = queries.matching(select(*columns), chosen, actor)
    if cursor is not None:
        query = query.where(Job.id < cursor)
    rows = session.execute(query.order_by(Job.id.desc()).limit(LOOKED_AT)).all()
    order = blame.positions(session)
    found: list[dict[str, Any]] = []
    size = 0
    for row in rows:
        if not row.decided:
            continue
        (recorded,) = packets.recorded(session, [row.id], [stage]).values()
        job = _job(recorded, stage, plugin_key, order)
        found.append(job)
        size += len(to_json(job))
        if len(found) == MOST_JOBS or size > MOST_BYTES:
            return Page(found, row.id)
    return Page(found, rows[-1].id if len(rows) == LOOKED_AT else None)


def _conditions(stage: Stage, plugin_key: str) -> list[Any]:
    conditions = [TrailRow.stage == str(stage), TrailRow.outcome.in_(_DECIDED)]
    return [*conditions, TrailRow.plugin_key == plugin_key] if plugin_key else conditions


def _job(job: Recorded, stage: Stage, plugin_key: str, order: Mapping[str, int]) -> dict[str, Any]:
    shown: dict[str, Any] = {"jobID": job.id, "namespace": job.namespace, "packet": None, "answers": [], "problem": ""}
    try:
        sent = packets.sent(job, stage, order)
        answers = [_answer(sent, stage, call) for call in last_decisions(job.calls_of(stage), plugin_key)]
    except (NotFound, jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as error:
        return {**shown, "problem": str(error)}
    return {**shown, "packet": sent.shown(), "answers": answers}


def last_decisions(calls: Sequence[TrailEntry], plugin_key: str = "") -> list[TrailEntry]:
    """What each plugin, or the one with this key, decided last."""
    latest = {call.plugin_key: call for call in calls if call.outcome in _DECIDED}
    return [call for key, call in latest.items() if plugin_key in ("", key)]


def _answer(sent: Sent, stage: Stage, call: TrailEntry) -> dict[str, Any]:
    return {
        "plugin": call.plugin_key,
        "outcome": call.outcome,
        "decision": call.decision,
        "reason": call.reason,
        "factors": call.factors,
        "patch": None if call.patch is None else shown_change(sent.job, call.patch, stage),
    }


def shown_change(
    job: Mapping[str, Any], patch: Sequence[Mapping[str, Any]], stage: Stage
) -> Sequence[Mapping[str, Any]]:
    """A recorded change of the packet's job as a JSON Patch of the job as it is shown, without secrets.

    The operations of the recorded one may set the value of a variable without its name, by which it would have to be masked.
    """
    changed = masked(jsonpatch.apply_patch(job, patch))
    return patch_between(None if stage is Stage.TRANSLATE else masked(job), changed)
