"""The body of a delivery, the result of a subscriber's answer, and the pauses between attempts."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from pipeline_core.database.models import DeliveryStatus
from pipeline_core.hooks.mail import MailRefused
from pipeline_core.hooks.sending import DeliveryResult, backoff, event_body, request_body, result_of
from pipeline_core.plugins.answers import Acknowledgement
from pipeline_core.plugins.errors import BadAnswer, CallFailed, CircuitOpen, ConcurrencyLimit, PluginUnavailable
from pipeline_core.settings import settings

PAUSE = 7.0


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        (Acknowledgement.OK, DeliveryResult(DeliveryStatus.DELIVERED, "OK")),
        (Acknowledgement.EXCEPTION, DeliveryResult(DeliveryStatus.EXCEPTION, "EX")),
        (Acknowledgement.RETRY, DeliveryResult(DeliveryStatus.WAITING, "RE", PAUSE)),
        (BadAnswer("status 500"), DeliveryResult(DeliveryStatus.WAITING, "status 500", PAUSE)),
        (
            PluginUnavailable("no connection"),
            DeliveryResult(DeliveryStatus.WAITING, "no connection", PAUSE, answered=False),
        ),
    ],
)
def test_what_a_subscriber_s_answer_leads_to(answer: Acknowledgement | CallFailed, result: DeliveryResult) -> None:
    assert result_of(answer, PAUSE) == result


@pytest.mark.parametrize(
    "answer",
    [
        Acknowledgement.RETRY,
        PluginUnavailable("status 429", retry_after=60, status=429),
        BadAnswer("status 400", retry_after=60, status=400),
    ],
)
def test_a_subscriber_may_ask_for_a_longer_pause_and_gets_it_until_the_delivery_is_given_up(
    answer: Acknowledgement | CallFailed,
) -> None:
    result = result_of(answer, PAUSE, 60 if isinstance(answer, Acknowledgement) else None)
    assert result.status is DeliveryStatus.WAITING
    moment = datetime(2026, 3, 1, 12, tzinfo=UTC)
    for left, seconds in [(3600, 60), (30, 30), (3, PAUSE), (-1, PAUSE)]:
        assert result.next_at(moment, moment + timedelta(seconds=left)) == moment + timedelta(seconds=seconds)


def test_a_pause_that_is_shorter_than_the_usual_one_changes_nothing() -> None:
    result = result_of(PluginUnavailable("status 503", retry_after=1, status=503), PAUSE)
    moment = datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert result.next_at(moment, moment + timedelta(days=1)) == moment + timedelta(seconds=PAUSE)


def test_a_mail_that_is_refused_for_good_gives_up() -> None:
    result = result_of(MailRefused("the mail server refused the recipient: 550 no such user"), PAUSE)
    assert result == DeliveryResult(DeliveryStatus.EXCEPTION, "the mail server refused the recipient: 550 no such user")


def test_a_subscriber_that_is_gone_gives_up() -> None:
    result = result_of(BadAnswer("status 410: moved away", status=410), PAUSE)
    assert result == DeliveryResult(DeliveryStatus.EXCEPTION, "status 410: moved away")


@pytest.mark.parametrize(("kind", "answered"), [(ConcurrencyLimit, None), (CircuitOpen, False)])
@pytest.mark.parametrize(("retry_after", "pause"), [(None, 1.0), (0.2, 1.0), (12.0, 12.0)])
def test_without_a_request_no_attempt_is_counted(
    kind: type[PluginUnavailable], answered: bool | None, retry_after: float | None, pause: float
) -> None:
    found = result_of(kind("not now", retry_after=retry_after), PAUSE)
    assert found == DeliveryResult(DeliveryStatus.WAITING, "not now", pause, counted=False, answered=answered)


def test_pauses_double_up_to_the_longest_and_have_jitter(fresh_runtime: object) -> None:
    limits = settings()
    shortest, longest = limits.hook_retry_min_seconds, limits.hook_retry_max_seconds
    for attempt in range(1, 60):
        most = min(shortest * 2 ** (attempt - 1), longest)
        found = [backoff(attempt, limits) for _ in range(20)]
        assert all(most / 2 <= pause <= most for pause in found)
        assert len(set(found)) > 1


def test_the_body_has_the_state_twice_and_the_times_of_the_event_and_of_the_attempt() -> None:
    occurred, sent = datetime(2026, 3, 1, 12, tzinfo=UTC), datetime(2026, 3, 1, 13, tzinfo=UTC)
    event = SimpleNamespace(
        subject_id="j1", user_id="ada", name="train", kind="TFJob", namespace="ml", sequence=3, state="failed",
        previous_state="running", reason="boom", occurred_at=occurred,
    )  # fmt: skip
    assert json.loads(request_body(event_body(event), sent)) == {
        "id": "j1",
        "current_state": "failed",
        "currentState": "failed",
        "previousState": "running",
        "userID": "ada",
        "jobName": "train",
        "jobKind": "TFJob",
        "namespace": "ml",
        "reason": "boom",
        "sequence": 3,
        "occurredAt": "2026-03-01T12:00:00Z",
        "currentTime": "2026-03-01T13:00:00Z",
    }
