"""One delivery: claim it, tell the subscriber, write down what it said."""

from __future__ import annotations

import json
import random
import time
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, exists, func, or_, select, update
from sqlalchemy.orm import Session, aliased

from pipeline_core.common import failpoints
from pipeline_core.common.clock import now, rfc3339
from pipeline_core.common.failpoints import Point
from pipeline_core.database import again_if_contended, transaction, wakeups
from pipeline_core.database.models import Delivery, DeliveryStatus, Event, Job
from pipeline_core.features import snapshot
from pipeline_core.hooks import alerts
from pipeline_core.plugins import answers
from pipeline_core.plugins.answers import Acknowledgement
from pipeline_core.plugins.client import hook_client
from pipeline_core.plugins.failures import CallFailed, CircuitOpen, NoRoom
from pipeline_core.plugins.packet import Endpoint
from pipeline_core.settings import Settings, settings


@dataclass(frozen=True, slots=True)
class Telling:
    """A claimed delivery, with all that is needed to make it."""

    delivery_id: str
    subject_id: str
    sequence: int
    state: str
    plugin_key: str
    attempt: int
    give_up_at: datetime
    endpoint: Endpoint
    body: bytes
    request_id: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one try. `pause` is in seconds, until the next; `counted` says whether the subscriber was asked."""

    status: DeliveryStatus
    answer: str
    pause: float = 0.0
    counted: bool = True


def deliver(delivery_id: str, owner: str) -> DeliveryStatus | None:
    """Try a delivery once, if it is due and first in its line; its status then, or None when there was nothing to do.

    `owner` is a name that no other try has. Raises Unavailable.
    """
    telling = claim(delivery_id, owner)
    if telling is None:
        return None
    failpoints.reach(Point.HOOK_CLAIMED, telling.state)
    verdict = tell(telling)
    failpoints.reach(Point.HOOK_TOLD, telling.state)
    finish(telling, owner, verdict)
    failpoints.reach(Point.HOOK_FINISHED, telling.state)
    return verdict.status


def blocked() -> ColumnElement[bool]:
    """Whether an earlier delivery of the same subject to the same subscriber is still waiting."""
    earlier = aliased(Delivery)
    return exists().where(
        earlier.subject_id == Delivery.subject_id,
        earlier.plugin_key == Delivery.plugin_key,
        earlier.sequence < Delivery.sequence,
        earlier.status == DeliveryStatus.WAITING,
    )


@again_if_contended
def claim(delivery_id: str, owner: str) -> Telling | None:
    """Take the lease of a delivery that is due, whose subscriber is enabled, and before which none is waiting."""
    with transaction() as session:
        key = session.execute(select(Delivery.plugin_key).where(Delivery.id == delivery_id)).scalar_one_or_none()
        endpoint = _subscriber(session, key) if key else None
        if endpoint is None:
            return None
        # The call takes at most the subscriber's time-out, and what comes before and after it is short.
        lease = timedelta(seconds=endpoint.timeout_seconds + settings().lease_seconds)
        row = session.execute(
            update(Delivery)
            .where(
                Delivery.id == delivery_id,
                Delivery.status == DeliveryStatus.WAITING,
                Delivery.next_at <= func.now(),
                or_(Delivery.lease_until.is_(None), Delivery.lease_until < func.now()),
                ~blocked(),
            )
            .values(lease_owner=owner, lease_until=func.now() + lease, attempts=Delivery.attempts + 1)
            .returning(
                Delivery.event_id,
                Delivery.subject_id,
                Delivery.sequence,
                Delivery.body,
                Delivery.attempts,
                Delivery.give_up_at,
            )
        ).one_or_none()
        if row is None:
            return None
        told, request_id = _told(session, row.event_id, row.body)
        return Telling(
            delivery_id=delivery_id,
            subject_id=row.subject_id,
            sequence=row.sequence,
            state=told.get("state") or told["currentState"],
            plugin_key=endpoint.key,
            attempt=row.attempts,
            give_up_at=row.give_up_at,
            endpoint=endpoint,
            body=json.dumps(told, ensure_ascii=False).encode(),
            request_id=request_id,
        )


def _subscriber(session: Session, key: str) -> Endpoint | None:
    """Whom to call, once for each try; None when there is none of that key, or its feature is disabled."""
    if key == alerts.RECEIVER:
        return alerts.receiver(settings())
    plugin = snapshot.current(session).get(key)
    return replace(plugin.endpoint, max_attempts=1) if plugin else None


def _told(session: Session, event_id: int | None, alert: Any) -> tuple[dict[str, Any], str]:
    """What is told, and the ID of the request that led to it."""
    if event_id is None:
        return {**alert, "currentTime": rfc3339(now())}, ""
    event, job = session.execute(select(Event, Job).join(Job, Job.id == Event.job_id).where(Event.id == event_id)).one()
    return body(event, job, now()), job.request_id


def body(event: Event, job: Job, moment: datetime) -> dict[str, Any]:
    """What a subscriber is sent. Two fields stand twice, for subscribers that were written for older systems."""
    return {
        "id": event.job_id,
        "current_state": event.state,
        "currentState": event.state,
        "previousState": event.previous_state,
        "userID": job.user_id,
        "jobName": job.name,
        "jobKind": job.kind,
        "namespace": job.namespace,
        "reason": event.reason,
        "sequence": event.sequence,
        "occurredAt": rfc3339(event.occurred_at),
        "currentTime": rfc3339(moment),
    }


def tell(telling: Telling) -> Verdict:
    """Make the call. Whatever is not one of the three words counts as `RE`, and is recorded as what it was."""
    pause = backoff(telling.attempt, settings())
    try:
        reply = hook_client().call(
            telling.endpoint,
            telling.body,
            job_id=telling.subject_id,
            idempotency_key=telling.delivery_id,
            deadline=time.monotonic() + telling.endpoint.timeout_seconds,
            request_id=telling.request_id,
        )
        read = answers.receipt if telling.plugin_key == alerts.RECEIVER else answers.acknowledgement
        word = read(reply.body)
    except (NoRoom, CircuitOpen) as failure:
        return Verdict(DeliveryStatus.WAITING, failure.cause, max(failure.retry_after or 0.0, 1.0), counted=False)
    except CallFailed as failure:
        return Verdict(DeliveryStatus.WAITING, failure.cause, pause)
    match word:
        case Acknowledgement.OK:
            return Verdict(DeliveryStatus.DELIVERED, word)
        case Acknowledgement.EXCEPTION:
            return Verdict(DeliveryStatus.EXCEPTION, word)
        case Acknowledgement.RETRY:
            return Verdict(DeliveryStatus.WAITING, word, pause)


def backoff(attempt: int, limits: Settings) -> float:
    """Seconds until the next try after so many: doubling, jittered so that deliveries do not come in step."""
    longest = min(limits.hook_retry_min_seconds * 2.0 ** min(attempt - 1, 32), limits.hook_retry_max_seconds)
    return longest * random.uniform(0.5, 1.0)


@again_if_contended
def finish(telling: Telling, owner: str, verdict: Verdict) -> None:
    """Write down what came of a try. Does nothing when the lease has gone to someone else meanwhile."""
    moment = now()
    next_at = moment + timedelta(seconds=verdict.pause)
    status = verdict.status
    if status is DeliveryStatus.WAITING and next_at > telling.give_up_at:
        status = DeliveryStatus.EXHAUSTED
    with transaction() as session:
        written = session.execute(
            update(Delivery)
            .where(Delivery.id == telling.delivery_id, Delivery.lease_owner == owner)
            .values(
                status=status,
                last_answer=verdict.answer[:500],
                next_at=next_at,
                published_at=None,
                finished_at=None if status is DeliveryStatus.WAITING else moment,
                attempts=telling.attempt if verdict.counted else telling.attempt - 1,
                lease_owner=None,
                lease_until=None,
            )
            .returning(Delivery.id)
        ).one_or_none()
        if written and status is not DeliveryStatus.WAITING:
            follow(session, telling.subject_id, telling.plugin_key)


def follow(session: Session, subject_id: str, plugin_key: str) -> None:
    """Wake whoever is next in the line of a subject and a subscriber."""
    following = (
        select(Delivery.id)
        .where(
            Delivery.subject_id == subject_id,
            Delivery.plugin_key == plugin_key,
            Delivery.status == DeliveryStatus.WAITING,
        )
        .order_by(Delivery.sequence)
        .limit(1)
        .scalar_subquery()
    )
    woken = session.execute(
        update(Delivery).where(Delivery.id == following).values(published_at=now()).returning(Delivery.id)
    ).scalar_one_or_none()
    if woken:
        wakeups.after_commit(session, wakeups.DeliveryDue(woken))
