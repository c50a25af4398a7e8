"""What a shadow answered about jobs, beside what was decided: how often both agreed, where not, how long both took."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from redis.exceptions import RedisError
from sqlalchemy import ColumnElement, Row, func, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from pipeline_core.auth.actor import Actor
from pipeline_core.common.clock import rfc3339
from pipeline_core.database.models import Job, ShadowAnswer, TrailRow
from pipeline_core.features import registry
from pipeline_core.jobs.trail import bounded, masked_patch
from pipeline_core.metrics.totals import Metric, totals
from pipeline_core.stages.outcomes import TrailOutcome

_SHOWN = ("outcome", "decision", "reason", "factors", "patch")


def report(session: Session, key: str, actor: Actor, since: datetime | None, most: int) -> dict[str, Any]:
    """The answers of a plugin as a shadow, of the jobs that the actor may see, from `since` on; with the latest `most`
    disagreements, and as many errors.

    It may have been promoted since. Raises NotFound when there is no such plugin.
    """
    plugin = registry.plugin_detail(session, key)
    conditions = _conditions(key, actor, since)
    failed = ShadowAnswer.outcome == TrailOutcome.FAILED
    counts = session.execute(
        select(
            func.count().label("answers"),
            func.count().filter(ShadowAnswer.agrees.is_(True)).label("agreed"),
            func.count().filter(ShadowAnswer.agrees.is_(False)).label("disagreed"),
            func.count().filter(failed).label("errors"),
        ).where(*conditions)
    ).one()
    pairs = select(ShadowAnswer, TrailRow).outerjoin(TrailRow, TrailRow.id == ShadowAnswer.trail_id)
    latest = pairs.where(*conditions).order_by(ShadowAnswer.started_at.desc(), ShadowAnswer.id.desc()).limit(most)
    return {
        "key": key,
        "mode": plugin["mode"],
        "shadowOf": plugin["shadowOf"],
        **counts._mapping,
        "dropped": None if actor.own_only else _dropped(key),
        "notCompared": counts.answers - counts.agreed - counts.disagreed - counts.errors,
        "latency": {
            "shadow": _latency(session, ShadowAnswer.duration_ms, conditions),
            "decided": _latency(session, TrailRow.duration_ms, conditions),
        },
        "disagreements": _shown(session.execute(latest.where(ShadowAnswer.agrees.is_(False))).all()),
        "lastErrors": _shown(session.execute(latest.where(failed)).all()),
    }


def _conditions(key: str, actor: Actor, since: datetime | None) -> list[ColumnElement[bool]]:
    conditions = [ShadowAnswer.plugin_key == key]
    if since is not None:
        conditions.append(ShadowAnswer.started_at >= since)
    if actor.own_only:
        conditions.append(ShadowAnswer.job_id.in_(select(Job.id).where(Job.user_id == actor.name)))
    return conditions


def _dropped(key: str) -> int | None:
    """How many questions it was not asked since the totals in Redis began; None while Redis is unavailable."""
    try:
        return totals().counts(Metric.SHADOWS_DROPPED).get((key,), 0)
    except RedisError:
        return None


def _latency(
    session: Session, duration_ms: InstrumentedAttribute[int], conditions: Sequence[ColumnElement[bool]]
) -> dict[str, Any] | None:
    """How long the calls took of which both answers are known; None without any."""
    found = session.execute(
        select(
            func.avg(duration_ms).label("mean"),
            func.percentile_disc(0.5).within_group(duration_ms).label("median"),
            func.percentile_disc(0.95).within_group(duration_ms).label("p95"),
        )
        .select_from(ShadowAnswer)
        .join(TrailRow, TrailRow.id == ShadowAnswer.trail_id)
        .where(*conditions, ShadowAnswer.agrees.is_not(None))
    ).one()
    if found.mean is None:
        return None
    return {"meanMs": round(found.mean), "medianMs": found.median, "p95Ms": found.p95}


def _shown(rows: Sequence[Row[ShadowAnswer, TrailRow]]) -> list[dict[str, Any]]:
    """The pairs as the API shows them; there is no row of the trail for an answer that is compared with none."""
    found: list[dict[str, Any]] = []
    entries: list[dict[str, Any]] = []
    for given, decided in rows:
        shadow, other = _entry(given), _entry(decided) if decided else None
        entries += [shadow, other] if other else [shadow]
        at = rfc3339(given.started_at)
        found.append({"jobID": given.job_id, "stage": given.stage, "at": at, "shadow": shadow, "decided": other})
    bounded(entries)
    return found


def _entry(row: ShadowAnswer | TrailRow) -> dict[str, Any]:
    return {
        "plugin": row.plugin_key,
        "durationMs": row.duration_ms,
        **{name: getattr(row, name) for name in _SHOWN},
        "patch": masked_patch(row.patch),
    }
