from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime

import pytest

from pipeline_core.plugins.client import PluginClient, retry_after
from pipeline_core.plugins.errors import AddressRefused, BadAnswer, CallFailed, JobRejected, PluginUnavailable
from pipeline_core.plugins.guard import Guard
from pipeline_core.plugins.network import Deadline
from pipeline_core.plugins.packet import Endpoint
from pipeline_core.plugins.transport import Response, Transport
from pipeline_core.plugins.types import PluginType

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OK = Response(200, {}, b"yes")


def status(code: int, body: bytes = b"", **headers: str) -> Response:
    return Response(code, {name.replace("_", "-"): value for name, value in headers.items()}, body)


class Script(Transport):
    """A transport that answers from a script, and records the requests."""

    def __init__(self, *answers: Response | CallFailed) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[Mapping[str, str], float]] = []

    def post(self, url: str, body: bytes, headers: Mapping[str, str], deadline: Deadline) -> Response:
        self.asked.append((headers, deadline.seconds))
        answer = self.answers.pop(0)
        if isinstance(answer, CallFailed):
            raise answer
        return answer


class Call:
    def __init__(self, *answers: Response | CallFailed) -> None:
        self.script = Script(*answers)
        self.pauses: list[float] = []
        guard = Guard(None, prefix="", concurrency=1, failures=1, open_seconds=1)
        self.client = PluginClient(self.script, guard, sleep=self.pauses.append)

    def __call__(
        self,
        *,
        attempts: int = 3,
        timeout: float = 30,
        budget: float = 120,
        authorization: str = "",
        type: PluginType = PluginType.ACCESS_GATE,
    ) -> bytes:
        endpoint = Endpoint("k", type, "http://plugin/", authorization, "", timeout, attempts)
        deadline = time.monotonic() + budget
        return self.client.call(endpoint, b"{}", job_id="j", idempotency_key="j:s:k:1", deadline=deadline).body


@pytest.mark.parametrize(
    "busy", [status(429), status(500), status(502), status(503), status(504), PluginUnavailable("no connection")]
)
def test_calls_of_an_unavailable_plugin_are_retried(busy: Response | CallFailed) -> None:
    call = Call(busy, busy, OK)
    assert call() == b"yes"
    assert len({headers["Idempotency-Key"] for headers, _ in call.script.asked}) == 1
    assert len(call.pauses) == 2
    assert all(0 < pause <= 0.4 for pause in call.pauses)


def test_attempts_end_and_are_counted() -> None:
    call = Call(status(503, b"later"), status(503, b"later"), OK)
    with pytest.raises(PluginUnavailable, match="status 503: later") as caught:
        call(attempts=2)
    assert caught.value.attempts == 2
    assert caught.value.retry_after is None


@pytest.mark.parametrize(
    "bad",
    [status(code) for code in (201, 204, 400, 401, 404, 422, 501)] + [status(302), BadAnswer("x"), AddressRefused("x")],
)
def test_a_bad_answer_is_not_retried(bad: Response | CallFailed) -> None:
    call = Call(bad, OK)
    with pytest.raises(BadAnswer) as caught:
        call()
    assert caught.value.attempts == 1
    assert call.pauses == []


def test_retry_after_is_respected() -> None:
    call = Call(status(429, Retry_After="7"), OK)
    assert call() == b"yes"
    assert call.pauses == [7.0]


def test_retry_after_beyond_the_deadline_is_raised_to_the_caller() -> None:
    call = Call(status(429, Retry_After="60"), OK)
    with pytest.raises(PluginUnavailable, match="status 429") as caught:
        call(budget=50)
    assert caught.value.retry_after == 60
    assert caught.value.attempts == 1
    assert call.pauses == []


@pytest.mark.parametrize(("code", "failure"), [(429, PluginUnavailable), (503, PluginUnavailable), (410, BadAnswer)])
def test_a_failure_has_the_status_and_the_pause_that_was_asked_for(code: int, failure: type[CallFailed]) -> None:
    with pytest.raises(failure) as caught:
        Call(status(code, Retry_After="60"))(attempts=1)
    assert (caught.value.status, caught.value.retry_after) == (code, 60)


def test_an_attempt_gets_what_is_left_of_the_budget() -> None:
    call = Call(OK)
    call(timeout=3000, budget=500)
    [(_, seconds)] = call.script.asked
    assert 400 < seconds <= 500


def test_no_request_is_made_after_the_deadline() -> None:
    call = Call(OK)
    with pytest.raises(PluginUnavailable, match="used up") as caught:
        call(budget=0)
    assert caught.value.attempts == 0
    assert call.script.asked == []


def test_a_secret_that_a_plugin_echoes_is_masked() -> None:
    call = Call(status(501, b"headers: Bearer hush; token hush"))
    with pytest.raises(BadAnswer) as caught:
        call(authorization="Bearer hush")
    assert caught.value.cause == "status 501: headers: ***; token ***"


@pytest.mark.parametrize(
    ("code", "body", "words"),
    [
        (422, b'{"error": "no `worker`"}', "no `worker` (status 422)"),
        (400, b'{"message": "two masters", "code": 7}', "two masters (status 400)"),
        (409, b'{"code": 7}', '{"code": 7} (status 409)'),
        (404, b"no such\nimage hush", "no such image *** (status 404)"),
        (403, b"", "status 403"),
    ],
)
def test_a_translator_that_answers_4xx_rejects_the_job(code: int, body: bytes, words: str) -> None:
    call = Call(status(code, body), OK)
    with pytest.raises(JobRejected) as caught:
        call(type=PluginType.TEMPLATE_TRANSLATOR, authorization="Bearer hush")
    assert (caught.value.cause, caught.value.attempts, caught.value.status) == (words, 1, code)


@pytest.mark.parametrize("code", [401, 201, 302, 501])
def test_what_is_not_about_the_job_is_a_translator_s_bad_answer(code: int) -> None:
    with pytest.raises(BadAnswer):
        Call(status(code))(type=PluginType.TEMPLATE_TRANSLATOR)


def test_a_redirect_says_that_it_is_not_followed() -> None:
    with pytest.raises(BadAnswer, match="status 307: redirects are not followed"):
        Call(status(307, b"<html>"))()


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0),
        (" 12 ", 12),
        ("Thu, 01 Jan 2026 00:00:30 GMT", 30),
        ("Wed, 31 Dec 2025 23:00:00 GMT", 0),
        ("9" * 5000, 999_999_999),
        (None, None),
        ("", None),
        ("-5", None),
        ("soon", None),
        ("1.5", None),
        ("٣", None),
        ("Thu, 01 Jan 2026 00:00:30 -0000", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(value: str | None, seconds: float | None) -> None:
    assert retry_after(value, NOW) == seconds
