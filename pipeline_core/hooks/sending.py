"""Send one delivery: claim it, make one attempt, write the result."""

from __future__ import annotations

import json
import random
import time
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Any

from sqlalchemy import func, or_, select, update
from sqlalchemy.orm import Session

from pipeline_core.common import failpoints
from pipeline_core.common.clock import now, rfc3339
from pipeline_core.common.failpoints import Point
from pipeline_core.database import again_if_contended, transaction, wakeups
from pipeline_core.database.models import Delivery, DeliveryStatus, Event, Job
from pipeline_core.features import snapshot
from pipeline_core.hooks.deliveries import ALERTS, alert_receiver, blocked
from pipeline_core.plugins import answers
from pipeline_core.plugins.answers import Acknowledgement
from pipeline_core.plugins.client import hook_client
from pipeline_core.plugins.errors import CallFailed, CircuitOpen, ConcurrencyLimit, mask
from pipeline_core.plugins.packet import Endpoint
from pipeline_core.settings import Settings, settings


@dataclass(frozen=True, slots=True)
class ClaimedDelivery:
    """A delivery whose lease one worker holds, with all that is needed to send it. `attempt` counts from 1."""

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
class DeliveryResult:
    """The result of one attempt. `pause` is in seconds, until the next, and `requested_pause` what the subscriber requested;
    `counted` says whether a request was made."""

    status: DeliveryStatus
    answer: str
    pause: float = 0.0
    counted: bool = True
    requested_pause: float = 0.0

    def next_at(self, moment: datetime, give_up_at: datetime) -> datetime:
        """When the next attempt is due. What the subscriber asks for is kept to until the delivery is given up, not beyond."""
        usual = moment + timedelta(seconds=self.pause)
        left = (give_up_at - moment).total_seconds()
        return max(usual, moment + timedelta(seconds=min(self.requested_pause, left)))


def deliver(delivery_id: str, owner: str) -> DeliveryStatus | None:
    """Make one attempt of a delivery, if it is due and not blocked. Returns its new status, or None without an attempt.

    `owner` is a name that is unique to this call. Raises Unavailable.
    """
    delivery = claim(delivery_id, owner)
    if delivery is None:
        return None
    failpoints.reach(Point.HOOK_CLAIMED, delivery.state)
    result = send(delivery)
    failpoints.reach(Point.HOOK_ANSWERED, delivery.state)
    finish(delivery, owner, result)
    failpoints.reach(Point.HOOK_FINISHED, delivery.state)
    return result.status


@again_if_contended
def claim(delivery_id: str, owner: str) -> ClaimedDelivery | None:
    """Take the lease of a delivery that is due and not blocked, and whose subscriber is enabled; None otherwise."""
    with transaction() as session:
        key = session.execute(select(Delivery.plugin_key).where(Delivery.id == delivery_id)).scalar_one_or_none()
        endpoint = _subscriber(session, key) if key else None
        if endpoint is None:
            return None
        # The request takes at most the subscriber's time-out; the statements before and after it take a moment.
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
        document, request_id = _document(session, row.event_id, row.body)
        return ClaimedDelivery(
            delivery_id=delivery_id,
            subject_id=row.subject_id,
            sequence=row.sequence,
            state=document.get("state") or document["currentState"],
            plugin_key=endpoint.key,
            attempt=row.attempts,
            give_up_at=row.give_up_at,
            endpoint=endpoint,
            body=json.dumps(document, ensure_ascii=False).encode(),
            request_id=request_id,
        )


def _subscriber(session: Session, key: str) -> Endpoint | None:
    """The endpoint, for one attempt; None when there is no such plugin, or its feature is disabled."""
    if key == ALERTS:
        return alert_receiver(settings())
    plugin = snapshot.current(session).get(key)
    return replace(plugin.endpoint, max_attempts=1) if plugin else None


def _document(session: Session, event_id: int | None, alert: Any) -> tuple[dict[str, Any], str]:
    """The request body as a document, and the ID of the API request that submitted the job."""
    if event_id is None:
        return {**alert, "currentTime": rfc3339(now())}, ""
    event, job = session.execute(select(Event, Job).join(Job, Job.id == Event.job_id).where(Event.id == event_id)).one()
    return event_body(event, job, now()), job.request_id


def event_body(event: Event, job: Job, moment: datetime) -> dict[str, Any]:
    """The request body of an event. It has the state twice, for subscribers that were written for older systems."""
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


def send(delivery: ClaimedDelivery) -> DeliveryResult:
    """Make one request to the subscriber."""
    pause = backoff(delivery.attempt, settings())
    try:
        reply = hook_client().call(
            delivery.endpoint,
            delivery.body,
            job_id=delivery.subject_id,
            idempotency_key=delivery.delivery_id,
            deadline=time.monotonic() + delivery.endpoint.timeout_seconds,
            request_id=delivery.request_id,
        )
        read = answers.alert_acknowledgement if delivery.plugin_key == ALERTS else answers.acknowledgement
        return result_of(read(reply.body), pause, reply.retry_after)
    except CallFailed as failure:
        failure.cause = mask(failure.cause, delivery.endpoint.secrets)
        return result_of(failure, pause)


def result_of(
    answer: Acknowledgement | CallFailed, pause: float, requested_pause: float | None = None
) -> DeliveryResult:
    """The result of a subscriber's answer. `pause`, in seconds, is that before the next attempt, if there is one, unless the
    subscriber requested a longer one (`Retry-After`), as `requested_pause` or in the failure.

    A failure counts as `RE`, and its cause is stored as the answer. Status 410 counts as `EX`.
    """
    if isinstance(answer, CallFailed):
        requested_pause = answer.retry_after
        if answer.status == HTTPStatus.GONE:
            return DeliveryResult(DeliveryStatus.EXCEPTION, answer.cause)
    requested = requested_pause or 0.0
    match answer:
        case Acknowledgement.OK:
            return DeliveryResult(DeliveryStatus.DELIVERED, answer)
        case Acknowledgement.EXCEPTION:
            return DeliveryResult(DeliveryStatus.EXCEPTION, answer)
        case Acknowledgement.RETRY:
            return DeliveryResult(DeliveryStatus.WAITING, answer, pause, requested_pause=requested)
        case ConcurrencyLimit() | CircuitOpen():
            wait = max(requested, 1.0)
            return DeliveryResult(DeliveryStatus.WAITING, answer.cause, wait, counted=False)
        case _:
            return DeliveryResult(DeliveryStatus.WAITING, answer.cause, pause, requested_pause=requested)


def backoff(attempt: int, limits: Settings) -> float:
    """Seconds between this attempt and the next: exponential backoff with jitter, so that retries are spread over time."""
    longest = min(limits.hook_retry_min_seconds * 2.0 ** min(attempt - 1, 32), limits.hook_retry_max_seconds)
    return longest * random.uniform(0.5, 1.0)


@again_if_contended
def finish(delivery: ClaimedDelivery, owner: str, result: DeliveryResult) -> None:
    """Write the result of an attempt. Does nothing when another worker has taken the lease meanwhile."""
    moment = now()
    next_at = result.next_at(moment, delivery.give_up_at)
    given_up = result.status is DeliveryStatus.WAITING and next_at > delivery.give_up_at
    status = DeliveryStatus.EXHAUSTED if given_up else result.status
    with transaction() as session:
        written = session.execute(
            update(Delivery)
            .where(Delivery.id == delivery.delivery_id, Delivery.lease_owner == owner)
            .values(
                status=status,
                last_answer=result.answer[:500],
                next_at=next_at,
                published_at=None,
                finished_at=None if status is DeliveryStatus.WAITING else moment,
                attempts=delivery.attempt if result.counted else delivery.attempt - 1,
                lease_owner=None,
                lease_until=None,
            )
            .returning(Delivery.id)
        ).one_or_none()
        if written and status is not DeliveryStatus.WAITING:
            wake_next(session, delivery.subject_id, delivery.plugin_key)


def wake_next(session: Session, subject_id: str, plugin_key: str) -> None:
    """Wake the subject's next delivery to a subscriber, which was blocked by the one that has ended."""
    first = (
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
        update(Delivery).where(Delivery.id == first).values(published_at=now()).returning(Delivery.id)
    ).scalar_one_or_none()
    if woken:
        wakeups.after_commit(session, wakeups.DeliveryDue(woken))
