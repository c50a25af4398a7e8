"""One attempt of one delivery: what is sent, and what its result is."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from http import HTTPStatus
from typing import Any

from pipeline_core.common import tracing
from pipeline_core.common.clock import now, rfc3339
from pipeline_core.database.models import DeliveryStatus
from pipeline_core.hooks import chats, mail
from pipeline_core.hooks.mail import MailRefused, MailServer
from pipeline_core.hooks.places import Subscriber
from pipeline_core.hooks.receivers import AlertFormat, Receiver
from pipeline_core.plugins import answers
from pipeline_core.plugins.answers import Acknowledgement
from pipeline_core.plugins.client import hook_client
from pipeline_core.plugins.errors import CallFailed, CircuitOpen, ConcurrencyLimit, PluginUnavailable, mask
from pipeline_core.plugins.packet import Endpoint
from pipeline_core.settings import Settings, settings


@dataclass(frozen=True, slots=True)
class ClaimedDelivery:
    """A delivery whose lease one worker holds, with all that is needed to send it.

    `receiver` is that of an alert, None of an event. `attempt` counts from 1, `document` is the request's body without the time
    of the attempt, and the lease of `owner` ends at `lease_end`, a reading of `time.monotonic()`.
    """

    delivery_id: str
    subject_id: str
    state: str
    subscriber: Subscriber
    endpoint: Endpoint
    receiver: Receiver | None
    attempt: int
    give_up_at: datetime
    document: Mapping[str, Any]
    request_id: str
    owner: str
    lease_end: float
    traceparent: str = ""


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
    """Make one attempt to send to the subscriber, or to the receiver of alerts."""
    with tracing.span(
        "delivery",
        delivery.traceparent,
        tracing.Kind.CLIENT,
        subscriber=delivery.subscriber.key,
        state=delivery.state,
        attempt=delivery.attempt,
    ) as span:
        result = _send(delivery, span.traceparent)
        span.set("pipeline.status", result.status)
    return result


def _send(delivery: ClaimedDelivery, traceparent: str) -> DeliveryResult:
    pause = backoff(delivery.attempt, settings())
    try:
        if delivery.receiver and delivery.receiver.format is AlertFormat.MAIL:
            _mail(delivery)
            return result_of(Acknowledgement.OK, pause)
        endpoint, body, read = _request(delivery, now())
        reply = hook_client().call(
            endpoint,
            body,
            job_id=delivery.subject_id,
            idempotency_key=delivery.delivery_id,
            deadline=time.monotonic() + endpoint.timeout_seconds,
            request_id=delivery.request_id,
            traceparent=traceparent,
        )
        return result_of(read(reply.body), pause, reply.retry_after)
    except CallFailed as failure:
        failure.cause = mask(failure.cause, _secrets(delivery))
        return result_of(failure, pause)


def _request(delivery: ClaimedDelivery, moment: datetime) -> tuple[Endpoint, bytes, Callable[[bytes], Acknowledgement]]:
    """Where the request of an attempt at this moment goes, its body, and what reads the answer."""
    endpoint, document, receiver = delivery.endpoint, delivery.document, delivery.receiver
    if receiver is None:
        return endpoint, request_body(document, moment), answers.acknowledgement
    if receiver.format is AlertFormat.JSON:
        return endpoint, request_body(document, moment), answers.alert_acknowledgement
    signed = replace(endpoint, address=chats.address(receiver.format, endpoint.address, receiver.secret, moment))
    body = json.dumps(chats.body(receiver.format, document, receiver.secret, moment), ensure_ascii=False).encode()
    return signed, body, partial(chats.acknowledgement, receiver.format)


def _mail(delivery: ClaimedDelivery) -> None:
    limits, recipient = settings(), delivery.endpoint.address
    server, sender = MailServer.of(limits.smtp_url), limits.alert_sender
    message = mail.message(delivery.document, delivery.delivery_id, sender, recipient, now())
    hook_client().attempt(
        delivery.endpoint,
        lambda deadline: mail.send(server, sender, recipient, message, deadline, limits.plugin_networks),
    )


def _secrets(delivery: ClaimedDelivery) -> list[str]:
    secret = delivery.receiver.secret if delivery.receiver else ""
    return [*delivery.endpoint.secrets, *([secret] if secret else [])]


def result_of(
    answer: Acknowledgement | CallFailed, pause: float, requested_pause: float | None = None
) -> DeliveryResult:
    """The result of a subscriber's answer. `pause`, in seconds, is that before the next attempt, if there is one, unless the
    subscriber requested a longer one (`Retry-After`), as `requested_pause` or in the failure.

    A failure counts as `RE`, and its cause is stored as the answer. Status 410 counts as `EX`, and so
    does a mail that is refused for good.
    """
    if isinstance(answer, CallFailed):
        requested_pause = answer.retry_after
        if answer.status == HTTPStatus.GONE or isinstance(answer, MailRefused):
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
