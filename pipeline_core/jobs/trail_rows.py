"""The rows of a job's trail that a stage reads and writes: the plugin calls of its step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import JSON, ColumnElement, ScalarSelect, delete, func, insert, select
from sqlalchemy.dialects.postgresql import aggregate_order_by
from sqlalchemy.orm import Session

from pipeline_core.database.models import TrailRow, table
from pipeline_core.stages.names import Stage
from pipeline_core.stages.outcomes import ClaimedStep, TrailEntry, TrailOutcome

KEPT_OF_A_PLUGIN = 200
"""How many rows of one plugin are kept of a job: a gate may ask to be called again every few seconds, for days."""

COLUMNS = ("job_id", "epoch", "stage", *TrailEntry.__slots__)
_TRAIL = table(TrailRow)
_INSERT = insert(_TRAIL)


Calls = dict[int, TrailEntry]
"""Plugin calls by the IDs of their rows, the oldest first."""


def read(session: Session, job_id: str, stage: Stage) -> tuple[TrailEntry, ...]:
    """The plugin calls of this stage of the job so far, oldest first."""
    return tuple(read_all(session, [job_id], [stage])[job_id, stage].values())


def read_all(
    session: Session, job_ids: Collection[str], stages: Collection[Stage]
) -> defaultdict[tuple[str, Stage], Calls]:
    """The plugin calls of these stages of these jobs so far."""
    query = select(_TRAIL.c.job_id, _TRAIL.c.stage, _TRAIL.c.id, *(_TRAIL.c[name] for name in TrailEntry.__slots__))
    of_these = (_TRAIL.c.job_id.in_(job_ids), _TRAIL.c.stage.in_([str(stage) for stage in stages]))
    found: defaultdict[tuple[str, Stage], Calls] = defaultdict(dict)
    for row in session.execute(query.where(*of_these).order_by(_TRAIL.c.id)).mappings():
        entry = _entry({name: row[name] for name in TrailEntry.__slots__})
        found[row["job_id"], Stage(row["stage"])][row["id"]] = entry
    return found


def as_json(job_id: ColumnElement[str], stage: Stage) -> ScalarSelect[Any]:
    """The plugin calls of this stage of a job so far as one value, from which `entries` makes them; null if there are none."""
    call = func.json_build_array(*(_TRAIL.c[name] for name in TrailEntry.__slots__))
    calls = select(func.json_agg(aggregate_order_by(call, _TRAIL.c.id), type_=JSON))
    return calls.where(_TRAIL.c.job_id == job_id, _TRAIL.c.stage == str(stage)).scalar_subquery()


def entries(calls: Sequence[Sequence[Any]] | None) -> tuple[TrailEntry, ...]:
    """The plugin calls that were read `as_json`."""
    found = (dict(zip(TrailEntry.__slots__, call, strict=True)) for call in calls or ())
    return tuple(_entry({**call, "started_at": datetime.fromisoformat(call["started_at"])}) for call in found)


def _entry(fields: dict[str, Any]) -> TrailEntry:
    return TrailEntry(**{**fields, "outcome": TrailOutcome(fields["outcome"])})


def write(session: Session, step: ClaimedStep, entries: Sequence[TrailEntry]) -> None:
    """Write the plugin calls of a claimed step."""
    if entries:
        session.execute(_INSERT, rows_of(step, entries))


def rows_of(step: ClaimedStep, entries: Sequence[TrailEntry]) -> list[dict[str, Any]]:
    """The rows of these plugin calls, with COLUMNS."""
    of_step = {"job_id": step.job_id, "epoch": step.epoch, "stage": step.stage}
    return [{**of_step, **{name: getattr(entry, name) for name in TrailEntry.__slots__}} for entry in entries]


def forget_oldest(session: Session, job_id: str, stage: str, plugin_key: str) -> None:
    """Delete all rows of a plugin but the last KEPT_OF_A_PLUGIN."""
    of_plugin = (TrailRow.job_id == job_id, TrailRow.stage == stage, TrailRow.plugin_key == plugin_key)
    last = select(TrailRow.id).where(*of_plugin).order_by(TrailRow.id.desc()).limit(KEPT_OF_A_PLUGIN)
    session.execute(delete(TrailRow).where(*of_plugin, TrailRow.id.not_in(last)))
