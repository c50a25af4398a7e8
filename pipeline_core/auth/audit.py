"""The audit log: who did what to tokens, features, plugins and jobs, when, and from where."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from pipeline_core.auth.actor import Actor
from pipeline_core.common.clock import now, rfc3339
from pipeline_core.database.counting import count_up_to
from pipeline_core.database.models import AuditEntry


class Action(StrEnum):
    """What was done."""

    ADMIN_PASSWORD_CHANGE = "admin.password.change"
    TOKEN_CREATE = "token.create"
    TOKEN_CHANGE = "token.change"
    TOKEN_DELETE = "token.delete"
    FEATURE_REGISTER = "feature.register"
    FEATURE_REPLACE = "feature.replace"
    FEATURE_ENABLE = "feature.enable"
    FEATURE_DISABLE = "feature.disable"
    FEATURE_DELETE = "feature.delete"
    PLUGIN_ORDER = "plugin.order"
    PLUGIN_PROMOTE = "plugin.promote"
    JOB_STOP = "job.stop"
    JOB_RESUME = "job.resume"
    RUN_START = "run.start"
    RUN_STOP = "run.stop"
    RUN_RETRY = "run.retry"
    RUN_DISMISS = "run.dismiss"
    RUN_CLEAR = "run.clear"
    TASK_MARK = "task.mark"
    FLOW_PAUSE = "flow.pause"
    FLOW_RESUME = "flow.resume"
    BACKFILL_START = "backfill.start"
    BACKFILL_RESUME = "backfill.resume"
    BACKFILL_STOP = "backfill.stop"
    SECRETS_ROTATE = "secrets.rotate"
    DELIVERY_REDELIVER = "delivery.redeliver"
    TEMPLATE_IMPORT = "template.import"
    TEMPLATE_DELETE = "template.delete"
    FLOW_CREATE = "flow.create"
    FLOW_REPLACE = "flow.replace"
    FLOW_DELETE = "flow.delete"


def record(
    session: Session,
    actor: Actor,
    action: Action,
    target: str,
    *,
    reason: str = "",
    before: Any = None,
    after: Any = None,
) -> None:
    """Note, in the transaction that makes the change, what `actor` does to `target` (a name, a key, an id).

    `before` and `after` are JSON; they must hold no secrets.
    """
    session.add(
        AuditEntry(
            at=now(),
            actor=actor.name,
            token_id=actor.token_id,
            address=actor.address,
            request_id=actor.request_id,
            action=action,
            target=target,
            reason=reason,
            before=before,
            after=after,
        )
    )


def listing(session: Session, *, limit: int, offset: int) -> tuple[list[dict[str, Any]], int]:
    """A page of the log, the newest entries first, and how many there are (`count_up_to`)."""
    query = select(AuditEntry)
    page = session.scalars(query.order_by(AuditEntry.id.desc()).limit(limit).offset(offset))
    return [_payload(entry) for entry in page], count_up_to(session, query)


def _payload(entry: AuditEntry) -> dict[str, Any]:
    return {
        "id": entry.id,
        "at": rfc3339(entry.at),
        "actor": entry.actor,
        "tokenID": entry.token_id,
        "address": entry.address,
        "requestID": entry.request_id,
        "action": entry.action,
        "target": entry.target,
        "reason": entry.reason,
        "before": entry.before,
        "after": entry.after,
    }
