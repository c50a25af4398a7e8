"""One attempt of one delivery: what is sent, and what its result is."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Any

from pipeline_core.common.clock import now, rfc3339
from pipeline_core.database.models import DeliveryStatus
from pipeline_core.hooks.deliveries import ALERTS
from pipeline_core.hooks.places import Subscriber
from pipeline_core.plugins import answers
from pipeline_core.plugins.answers import Acknowledgement
from pipeline_core.plugins.client import hook_client
from pipeline_core.plugins.errors import CallFailed, CircuitOpen, ConcurrencyLimit, PluginUnavailable, mask
from pipeline_core.plugins.packet import Endpoint
from pipeline_core.settings import Settings, settings


@dataclass(frozen=True, slots=True)
class ClaimedDelivery:
    """A delivery whose lease one worker holds, with all that is needed to send it.

    `attempt` counts from 1, `document` is the request's body without the time of the attempt, and the lease of `owner` ends
    at `lease_end`, a reading of `time.monotonic()`.
    """

    delivery_id: str
    subject_id: str
    state: str
    subscriber: Subscriber
    endpoint: Endpoint
    attempt: int
    give_up_at: datetime
    document: Mapping[str, Any]
    request_id: str
    owner: str
    lease_end: float


@dataclass(frozen=True, slots=True)
class DeliveryResult:
    """The result of one attempt. `pause` is in seconds, until the next, and `requested_pause` what the subscriber requested.

    `counted` says whether a request was made, and `answered` whether the subscriber is answering, None if that is not known.
    Without an `answer` the last one is kept.
    """

    status: DeliveryStatus
    answer: str | None
    pause: float = 0.0
    counted: bool = True
    requested_pause: float = 0.0
    answered: bool | None = True

    def next_at(self, moment: datetime, give_up_at: datetime) -> datetime:
        """When the next attempt is due. What the subscriber asks for is kept to until the delivery is given up, not beyond."""
        usual = moment + timedelta(seconds=self.pause)
        left = (give_up_at - moment).total_seconds()
        return max(usual, moment + timedelta(seconds=min(self.requested_pause, left)))


NOT_SENT = DeliveryResult(DeliveryStatus.WAITING, None, counted=False, answered=None)
"""A delivery that was claimed, and is left to the next claim."""


def event_body(event: Any) -> dict[str, Any]:
    """The request body of an event, a row with its columns and its job's, without the time of the attempt.

    It has the state twice, for subscribers that were written for older systems.
    """
    return {
        "id": event.subject_id,
        "current_state": event.state,
        "currentState": event.state,
        "previousState": event.previous_state,
        "userID": event.user_id,
        "jobName": event.name,
        "jobKind": event.kind,
        "namespace": event.namespace,
        "reason": event.reason,
        "sequence": event.sequence,
        "occurredAt": rfc3339(event.occurred_at),
    }


def request_body(document: Mapping[str, Any], moment: datetime) -> bytes:
    """The body of an attempt at this moment."""
    return json.dumps({**document, "currentTime": rfc3339(moment)}, ensure_ascii=False).encode()


def send(delivery: ClaimedDelivery) -> DeliveryResult:
    """Make one request to the subscriber."""
    pause = backoff(delivery.attempt, settings())
    try:
        reply = hook_client().call(
            delivery.endpoint,
            request_body(delivery.document, now()),
            job_id=delivery.subject_id,
            idempotency_key=delivery.delivery_id,
            deadline=time.monotonic() + delivery.endpoint.timeout_seconds,
            request_id=delivery.request_id,
        )
        read = answers.alert_acknowledgement if delivery.endpoint.key == ALERTS else answers.acknowledgement
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
            wait, answered = max(requested, 1.0), None if isinstance(answer, ConcurrencyLimit) else False
            return DeliveryResult(DeliveryStatus.WAITING, answer.cause, wait, counted=False, answered=answered)
        case _:
            answered = not isinstance(answer, PluginUnavailable)
            return DeliveryResult(
                DeliveryStatus.WAITING, answer.cause, pause, requested_pause=requested, answered=answered
            )


def backoff(attempt: int, limits: Settings) -> float:
    """Seconds between this attempt and the next: exponential backoff with jitter, so that retries are spread over time."""
    longest = min(limits.hook_retry_min_seconds * 2.0 ** min(attempt - 1, 32), limits.hook_retry_max_seconds)
    return longest * random.uniform(0.5, 1.0)
