"""Deliveries: one event, or one alert, on its way to one subscriber. Enqueue them, find due ones, list and redeliver them.

An alert reports the state of a run to the installation's receivers of alerts. It is delivered like an event: in order within its
run, with retries until it is exhausted, and it can be listed and redelivered.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, and_, case, exists, func, insert, or_, select, update
from sqlalchemy.orm import Session

from pipeline_core.auth import audit
from pipeline_core.auth.actor import SYSTEM, Actor
from pipeline_core.common.clock import now, rfc3339
from pipeline_core.common.ids import new_delivery_id
from pipeline_core.database import again_if_contended, transaction, wakeups
from pipeline_core.database.counting import count_up_to
from pipeline_core.database.models import Delivery, DeliveryStatus, Event, Feature, Job, Plugin, RunRow, table
from pipeline_core.errors import Conflict, NotFound, WrongParameter
from pipeline_core.hooks import feed_changes
from pipeline_core.hooks.receivers import ALERTS, is_alert, is_receiver, receivers
from pipeline_core.plugins.guard import Circuit, circuit
from pipeline_core.settings import settings
from pipeline_core.validation.texts import shown

REDELIVERABLE = (DeliveryStatus.EXCEPTION, DeliveryStatus.EXHAUSTED)
"""The statuses from which a delivery can be sent again."""

_DELIVERY = table(Delivery)
WAITING = _DELIVERY.c.status == DeliveryStatus.WAITING
"""Whether a delivery has not ended."""
DUE = and_(WAITING, _DELIVERY.c.next_at <= func.now())
"""Whether a delivery is to be attempted now, as far as no worker holds it and no earlier one of its line is waiting."""


def enqueue(
    session: Session,
    subject_id: str,
    sequence: int,
    plugin_key: str,
    moment: datetime,
    *,
    event_id: int | None = None,
    body: Mapping[str, Any] | None = None,
) -> None:
    """Enqueue the delivery of a job's event, or of an alert with its `body`, in the transaction of the change.

    `subject_id` is the job or the run, and `sequence` the number of the change within it.
    """
    row = new_row(subject_id, sequence, plugin_key, moment)
    session.execute(insert(_DELIVERY), {**row, "event_id": event_id, "body": body})
    wakeups.after_commit(session, wakeups.DeliveriesDue(plugin_key))


def new_row(subject_id: str, sequence: int, plugin_key: str, moment: datetime) -> dict[str, Any]:
    """The row of a new delivery, without the event or the body that it delivers."""
    return {
        "id": new_delivery_id(moment),
        "subject_id": subject_id,
        "sequence": sequence,
        "plugin_key": plugin_key,
        "status": DeliveryStatus.WAITING,
        "created_at": moment,
        "next_at": moment,
        "give_up_at": moment + timedelta(seconds=settings().hook_give_up_seconds),
    }


def enqueue_alert(session: Session, run_id: str, state: str, body: Mapping[str, Any], moment: datetime) -> None:
    """Enqueue an alert that the run is now in `state` to each receiver, in the transaction that changes the state.

    Each receiver gets at most one alert per state of a run, however often the run enters it.
    """
    keys = list(receivers(settings()))
    if not keys:
        return
    rows = session.execute(
        select(Delivery.plugin_key, Delivery.body).where(Delivery.subject_id == run_id, Delivery.plugin_key.in_(keys))
    )
    states: dict[str, list[str | None]] = {key: [] for key in keys}
    for key, earlier in rows:
        states[key].append((earlier or {}).get("state"))
    for key, known in states.items():
        if state not in known:
            sequence = len(known) + 1
            enqueue(session, run_id, sequence, key, moment, body={**body, "state": state, "sequence": sequence})


def can_start() -> list[ColumnElement[bool]]:
    """Whether a delivery can be attempted now: it is due, no worker holds it, and it is the first of its line, that is, no
    earlier delivery of the same subject to the same subscriber is waiting."""
    earlier = _DELIVERY.alias("earlier")
    behind_another = exists().where(
        earlier.c.subject_id == _DELIVERY.c.subject_id,
        earlier.c.plugin_key == _DELIVERY.c.plugin_key,
        earlier.c.sequence < _DELIVERY.c.sequence,
        earlier.c.status == DeliveryStatus.WAITING,
    )
    return [
        DUE,
        or_(_DELIVERY.c.lease_until.is_(None), _DELIVERY.c.lease_until < func.now()),
        ~behind_another.correlate(_DELIVERY),
    ]


def due() -> list[wakeups.DeliveriesDue]:
    """The enabled subscribers with deliveries that can be attempted now.

    While a subscriber's circuit is open it is left out; when the pause is over, its next delivery probes it.
    """
    with transaction() as session:
        subscribers = _subscribers_with_due(session)
    # Redis is asked after the transaction: a connection to the database must not wait for it.
    return [wakeups.DeliveriesDue(key) for key in subscribers if circuit(key) is not Circuit.OPEN]


def _subscribers_with_due(session: Session) -> list[str]:
    due_to_it = exists().where(Delivery.plugin_key == Plugin.key, *can_start())
    keys = list(session.scalars(select(Plugin.key).join(Feature).where(Feature.enabled.is_(True), due_to_it)))
    for key in receivers(settings()):
        keys += session.scalars(select(Delivery.plugin_key).where(Delivery.plugin_key == key, *can_start()).limit(1))
    return keys


@again_if_contended
def give_up() -> int:
    """End the deliveries that have waited for too long, and those whose subscriber was deleted. Returns how many."""
    over = Delivery.give_up_at < func.now()
    gone = and_(~is_alert(Delivery.plugin_key), ~exists().where(Plugin.key == Delivery.plugin_key))
    with transaction() as session:
        ended = session.scalars(
            update(Delivery)
            .where(
                WAITING,
                or_(Delivery.lease_until.is_(None), Delivery.lease_until < func.now()),
                or_(over, gone),
            )
            .values(
                status=case((gone, DeliveryStatus.DROPPED), else_=DeliveryStatus.EXHAUSTED),
                finished_at=func.now(),
                lease_owner=None,
                lease_until=None,
            )
            .returning(Delivery.id)
        ).all()
        feed_changes.note(session, ended, now())
    return len(ended)


def view(delivery: Delivery, state: str) -> dict[str, Any]:
    """One delivery as the API shows it; `state` is that of its event or alert."""
    own = "jobID" if delivery.event_id else "runID"
    return {
        "id": delivery.id,
        **{subject: delivery.subject_id if subject == own else None for subject in ("jobID", "runID")},
        "sequence": delivery.sequence,
        "state": state,
        "plugin": delivery.plugin_key,
        "status": delivery.status,
        "attempts": delivery.attempts,
        "lastAnswer": delivery.last_answer,
        "createdAt": rfc3339(delivery.created_at),
        "nextAt": rfc3339(delivery.next_at) if delivery.status == DeliveryStatus.WAITING else None,
        "finishedAt": rfc3339(delivery.finished_at),
        "worker": delivery.lease_owner,
    }


def listing(
    session: Session,
    *,
    plugin: str | None = None,
    status: str | None = None,
    subject_id: str | None = None,
    limit: int,
    offset: int,
    actor: Actor = SYSTEM,
) -> tuple[list[dict[str, Any]], int]:
    """Deliveries that `actor` sees, newest first, and how many there are (`count_up_to`).

    Raises WrongParameter for an unknown status.
    """
    conditions = _visible_to(actor)
    if plugin:
        conditions.append(_to(plugin))
    if status:
        conditions.append(Delivery.status.in_(_statuses(status)))
    if subject_id:
        conditions.append(Delivery.subject_id == subject_id)
    rows = session.execute(
        select(Delivery, Event.state)
        .outerjoin(Event, Event.id == Delivery.event_id)
        .where(*conditions)
        .order_by(Delivery.subject_id.desc(), Delivery.sequence.desc(), Delivery.id.desc())
        .limit(limit)
        .offset(offset)
    )
    found = [view(delivery, state or (delivery.body or {})["state"]) for delivery, state in rows]
    return found, count_up_to(session, select(Delivery.id).where(*conditions))


def _to(subscriber: str) -> ColumnElement[bool]:
    """Which deliveries go to this subscriber; `alerts` stands for all receivers of alerts."""
    return is_alert(Delivery.plugin_key) if subscriber == ALERTS else Delivery.plugin_key == subscriber


def _visible_to(actor: Actor) -> list[ColumnElement[bool]]:
    """An own-only actor sees deliveries of its user's jobs and runs, and those to its user's features."""
    if not actor.own_only:
        return []
    own_job = exists().where(Job.id == Delivery.subject_id, Job.user_id == actor.name)
    own_run = exists().where(
        RunRow.id == Delivery.subject_id, or_(RunRow.runner == actor.name, RunRow.creator == actor.name)
    )
    own_feature = exists().where(
        Plugin.key == Delivery.plugin_key, Feature.id == Plugin.feature_id, Feature.owner == actor.name
    )
    return [or_(own_job, own_run, own_feature)]


def _statuses(text: str) -> list[DeliveryStatus]:
    names = [name.strip().lower() for name in text.split(",")]
    unknown = [name for name in names if name not in list(DeliveryStatus)]
    if unknown:
        raise WrongParameter(
            f'status "{unknown[0]}" is not one of {", ".join(DeliveryStatus)}.',
            errors={"status": [f"must be one of {', '.join(DeliveryStatus)}"]},
        )
    return [DeliveryStatus(name) for name in names]


def redeliver(session: Session, delivery_id: str, actor: Actor) -> None:
    """Redeliver a delivery that was given up. Raises NotFound; Conflict for one that was not given up."""
    delivery = session.execute(
        select(Delivery).where(Delivery.id == delivery_id, *_visible_to(actor)).with_for_update()
    ).scalar_one_or_none()
    if delivery is None:
        raise NotFound(f"There is no delivery {shown(delivery_id)}.")
    if delivery.status not in REDELIVERABLE:
        raise Conflict(
            f"The delivery {delivery_id} is {delivery.status}; only {' or '.join(REDELIVERABLE)} ones are sent again."
        )
    _send_again(session, Delivery.id == delivery_id)
    audit.record(session, actor, audit.Action.DELIVERY_REDELIVER, delivery_id, before={"status": delivery.status})


def redeliver_all(session: Session, plugin_key: str, actor: Actor) -> int:
    """Redeliver all deliveries to this subscriber that were given up and that `actor` may see. Returns how many.

    Raises NotFound.
    """
    known = session.execute(select(Plugin.id).where(Plugin.key == plugin_key)).scalar_one_or_none() is not None
    if not known and not is_receiver(plugin_key):
        raise NotFound(f"There is no plugin {shown(plugin_key)}.")
    count = _send_again(session, and_(_to(plugin_key), *_visible_to(actor)))
    audit.record(session, actor, audit.Action.DELIVERY_REDELIVER, plugin_key, after={"count": count})
    return count


def _send_again(session: Session, which: ColumnElement[bool]) -> int:
    moment = now()
    waiting = session.execute(
        update(Delivery)
        .where(which, Delivery.status.in_(REDELIVERABLE))
        .values(
            status=DeliveryStatus.WAITING,
            next_at=moment,
            give_up_at=moment + timedelta(seconds=settings().hook_give_up_seconds),
            finished_at=None,
        )
        .returning(Delivery.id, Delivery.plugin_key)
    ).all()
    feed_changes.note(session, [delivery.id for delivery in waiting], moment)
    for subscriber in {delivery.plugin_key for delivery in waiting}:
        wakeups.after_commit(session, wakeups.DeliveriesDue(subscriber))
    return len(waiting)
