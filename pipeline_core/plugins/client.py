"""Calling a plugin: its attempts, the guard before each, and what the answer's status means."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus

from redis import Redis
from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt, stop_before_delay
from tenacity import wait_random_exponential as random_exponential

from pipeline_core.common import strict_json
from pipeline_core.common.clock import now
from pipeline_core.common.redis import Outage, outage, quick_redis
from pipeline_core.common.strict_json import NotStrict
from pipeline_core.plugins.errors import (
    BadAnswer,
    CallFailed,
    CircuitOpen,
    ConcurrencyLimit,
    JobRejected,
    PluginUnavailable,
    clean,
)
from pipeline_core.plugins.guard import Guard, PluginHealth
from pipeline_core.plugins.network import Deadline
from pipeline_core.plugins.packet import Endpoint, call_headers
from pipeline_core.plugins.transport import Response, Transport
from pipeline_core.plugins.types import Mode, PluginType
from pipeline_core.runtime import part
from pipeline_core.settings import Settings, settings

BUSY = frozenset({429, 500, 502, 503, 504})
"""HTTP statuses with which a plugin, or a proxy in front of it, reports that it is unavailable. Servers answer 500 for an
uncaught exception, which often does not happen again at the next attempt."""
MAX_REJECTION = 1000
"""Characters that are kept of a translator's reason for rejecting a job."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer with status 200. `seconds` is how long the last of the `attempts` took, and `retry_after` the pause in seconds
    that the answer asks for, if it does."""

    body: bytes
    attempts: int
    seconds: float
    retry_after: float | None = None


class PluginClient:
    """Calls plugins; one per process is enough, and threads may share it."""

    def __init__(self, transport: Transport, guard: Guard, sleep: Callable[[float], None] = time.sleep) -> None:
        self._transport = transport
        self._guard = guard
        self._sleep = sleep

    @classmethod
    def configured(
        cls,
        settings: Settings,
        redis: Redis | None = None,
        concurrency: int | None = None,
        outage: Outage | None = None,
        mode: Mode = Mode.ACTIVE,
    ) -> PluginClient:
        """A client with these settings; `redis`, `concurrency`, `outage` and `mode` as for `Guard.configured`."""
        return cls(Transport(settings.plugin_networks), Guard.configured(settings, redis, concurrency, outage, mode))

    def call(
        self,
        endpoint: Endpoint,
        body: bytes,
        *,
        job_id: str,
        idempotency_key: str,
        deadline: float,
        request_id: str = "",
        traceparent: str = "",
    ) -> Reply:
        """Call the plugin, with up to `max_attempts` attempts while it is unavailable.

        `idempotency_key` is the same for every attempt, and is the `webhook-id` of signed requests. `deadline` is a
        reading of `time.monotonic()`: no attempt and no pause goes beyond it, whatever the endpoint's own time-out.

        Raises PluginUnavailable (ConcurrencyLimit and CircuitOpen at once, without a pause), BadAnswer and JobRejected, all with
        `attempts`.
        """
        attempts = 0

        def attempt() -> Reply:
            nonlocal attempts
            limit = _limit(endpoint.timeout_seconds, deadline)
            with self._guard.entered(endpoint.key, limit.seconds):
                attempts += 1
                headers = call_headers(
                    endpoint,
                    body,
                    job_id=job_id,
                    idempotency_key=idempotency_key,
                    request_id=request_id,
                    traceparent=traceparent,
                )
                started = time.monotonic()
                response = self._transport.post(endpoint.address, body, headers, limit)
                check_status(response, endpoint)
                return Reply(response.body, attempts, time.monotonic() - started, _requested_pause(response))

        retrying = Retrying(
            retry=_RETRY,
            wait=_pause,
            stop=stop_after_attempt(endpoint.max_attempts) | stop_before_delay(deadline - time.monotonic()),
            sleep=self._sleep,
            reraise=True,
        )
        try:
            return retrying(attempt)
        except CallFailed as failure:
            failure.attempts = attempts
            raise

    def attempt(self, endpoint: Endpoint, request: Callable[[Deadline], None]) -> None:
        """Make one attempt by another protocol than HTTP, if the guard admits it. Raises what `request` raises, which should be
        a CallFailed, ConcurrencyLimit and CircuitOpen."""
        limit = Deadline.after(endpoint.timeout_seconds)
        with self._guard.entered(endpoint.key, limit.seconds):
            request(limit)

    def health(self, key: str) -> PluginHealth | None:
        """The health of the plugin `key`; None while Redis is unavailable."""
        return self._guard.health(key)

    def close(self) -> None:
        """Let other processes have what this one held of the plugins' calls. Calls may still be made."""
        self._guard.close()


@part(close=PluginClient.close)
def client() -> PluginClient:
    """This process's client for the plugins of the stages."""
    return PluginClient.configured(settings(), quick_redis(), outage=outage())


@part(close=PluginClient.close)
def hook_client() -> PluginClient:
    """This process's client for LifeHooks."""
    return PluginClient.configured(settings(), quick_redis(), settings().hook_concurrency, outage())


@part(close=PluginClient.close)
def shadow_client() -> PluginClient:
    """This process's client for shadows: neither their calls nor their failures count for the plugins of the stages."""
    return PluginClient.configured(settings(), quick_redis(), outage=outage(), mode=Mode.SHADOW)


def _limit(timeout: float, deadline: float) -> Deadline:
    left = deadline - time.monotonic()
    if left <= 0:
        raise PluginUnavailable("the time for the stage was used up before it could be asked")
    return Deadline.after(min(timeout, left))


def check_status(response: Response, endpoint: Endpoint) -> None:
    """Raises what a status other than 200 means: PluginUnavailable, JobRejected or BadAnswer."""
    status, pause = response.status, _requested_pause(response)
    if status == 200:
        return
    words = clean(response.body, hide=endpoint.secrets)
    cause = f"status {status}" + (f": {words}" if words else "")
    if status in BUSY:
        raise PluginUnavailable(cause, retry_after=pause, status=status)
    if endpoint.type is PluginType.TEMPLATE_TRANSLATOR and 400 <= status < 500 and status != HTTPStatus.UNAUTHORIZED:
        raise JobRejected(_rejection(response, endpoint), status=status)
    if 300 <= status < 400:
        cause = f"status {status}: redirects are not followed"
    raise BadAnswer(cause, retry_after=pause, status=status)


def _rejection(response: Response, endpoint: Endpoint) -> str:
    """What a translator says of a job: the text of its `error`, `message`, `msg` or `detail`, or its answer as it is."""
    body: str | bytes = response.body
    try:
        document = strict_json.parse(response.body)
    except NotStrict:
        document = None
    if isinstance(document, dict):
        texts = (document.get(name) for name in ("error", "message", "msg", "detail"))
        body = next((text for text in texts if isinstance(text, str) and text.strip()), body)
    words = clean(body, hide=endpoint.secrets, limit=MAX_REJECTION)
    return f"{words} (status {response.status})" if words else f"status {response.status}"


def _requested_pause(response: Response) -> float | None:
    return retry_after(response.headers.get("Retry-After"), now())


def retry_after(value: str | None, now: datetime) -> float | None:
    """Seconds that a `Retry-After` header (RFC 9110, 10.2.3: seconds or a date) asks for; None if it is neither."""
    text = (value or "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        return max(0.0, (parsedate_to_datetime(text) - now).total_seconds())
    except (ValueError, TypeError):
        return None


def _can_retry(error: BaseException) -> bool:
    return isinstance(error, PluginUnavailable) and not isinstance(error, ConcurrencyLimit | CircuitOpen)


def _pause(state: RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    requested = error.retry_after if isinstance(error, PluginUnavailable) else None
    return max(_BACKOFF(state), requested or 0.0)


_RETRY = retry_if_exception(_can_retry)
_BACKOFF = random_exponential(multiplier=0.2, max=5.0, min=0.05)
