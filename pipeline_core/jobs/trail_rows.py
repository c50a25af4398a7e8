"""The rows of a job's trail that a stage reads and writes: the plugin calls of its step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import delete, insert, select
from sqlalchemy.orm import Session

from pipeline_core.database.models import TrailRow, table
from pipeline_core.stages.names import Stage
from pipeline_core.stages.outcomes import ClaimedStep, TrailEntry, TrailOutcome

KEPT_OF_A_PLUGIN = 200
"""How many rows of one plugin are kept of a job: a gate may ask to be called again every few seconds, for days."""

COLUMNS = ("job_id", "epoch", "stage", *TrailEntry.__slots__)
_INSERT = insert(table(TrailRow))


def read(session: Session, job_id: str, stage: Stage) -> tuple[TrailEntry, ...]:
    """The plugin calls of this stage of the job so far, oldest first."""
    rows = session.execute(
        select(TrailRow).where(TrailRow.job_id == job_id, TrailRow.stage == stage).order_by(TrailRow.id)
    ).scalars()
    return tuple(
        TrailEntry(
            plugin_key=row.plugin_key,
            outcome=TrailOutcome(row.outcome),
            started_at=row.started_at,
            call_number=row.call_number,
            attempts=row.attempts,
            duration_ms=row.duration_ms,
            decision=row.decision,
            reason=row.reason,
            factors=row.factors,
            patch=row.patch,
        )
        for row in rows
    )


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
