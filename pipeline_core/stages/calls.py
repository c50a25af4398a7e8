"""Call the plugins of a stage. A plugin that does not answer is waited for (its patience), then its failure policy applies."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Generic, TypeVar, cast

from pipeline_core.common import tracing
from pipeline_core.common.clock import now
from pipeline_core.features.snapshot import RegisteredPlugin
from pipeline_core.plugins.client import client
from pipeline_core.plugins.errors import (
    BadAnswer,
    CallFailed,
    ConcurrencyLimit,
    JobRejected,
    PluginUnavailable,
    mask,
    masked,
    repeats,
)
from pipeline_core.plugins.packet import Packet, PluginCall
from pipeline_core.plugins.types import FailurePolicy, PluginType
from pipeline_core.settings import settings
from pipeline_core.stages.choice import choose
from pipeline_core.stages.names import Stage
from pipeline_core.stages.outcomes import (
    ClaimedStep,
    Fail,
    Outcome,
    Postpone,
    Suspend,
    TrailEntry,
    TrailOutcome,
    Unreachable,
)
from pipeline_core.stages.shares import shares

Value = TypeVar("Value")

MAX_PARALLEL = 16
"""How many plugins of one stage and one job are called at the same time."""
MAX_PAUSE = 30.0
"""The longest pause between two calls of an unavailable plugin for the same job, in seconds."""

_ANSWERS_TASKSET = frozenset(
    {PluginType.TEMPLATE_TRANSLATOR, PluginType.TEMPLATE_DECORATOR, PluginType.SCHEDULER_BINDER}
)
_DONE = frozenset({TrailOutcome.ANSWERED, TrailOutcome.IGNORED})
_CALLED = _DONE | {TrailOutcome.SUSPENDED, TrailOutcome.FAILED, TrailOutcome.REJECTED}


@dataclass(frozen=True, kw_only=True, slots=True)
class Answered(Generic[Value]):
    """A plugin's answer, read and checked."""

    plugin: RegisteredPlugin
    value: Value
    entry: TrailEntry


@dataclass(frozen=True, kw_only=True, slots=True)
class Unanswered:
    """There is no usable answer. If the job `waits` for the plugin, it is called again after `pause` seconds; otherwise
    `policy` applies. `unreachable` is what the step stores about the plugin until its next call, if anything. With `rejected`
    the plugin answered that the job is invalid, and the job fails whatever the policy.
    """

    plugin: RegisteredPlugin
    policy: FailurePolicy
    reason: str
    entry: TrailEntry
    unreachable: Unreachable | None
    waits: bool
    pause: float
    rejected: bool = False


Result = Answered[Value] | Unanswered


def request_body(step: ClaimedStep) -> bytes:
    """The body of the requests to every plugin of this stage."""
    job = step.submitted if step.stage is Stage.TRANSLATE else step.taskset
    return Packet(step.factors, step.header, job or {}).encode()


def settled_calls(step: ClaimedStep) -> dict[str, TrailEntry]:
    """The trail entries of plugins that need not be called again, by key.

    One that was promoted since is not called where the plugin has answered whose place it took: it has its entry.
    """
    latest = {entry.plugin_key: entry for entry in step.trail if entry.outcome is not TrailOutcome.RESUMED}
    done = {key: entry for key, entry in latest.items() if entry.outcome in _DONE}
    replaced = {key: shadow.shadow_of for key in done if (shadow := step.plugins.shadow(key)) and shadow.shadow_of}
    return {**{by: done[key] for key, by in replaced.items()}, **done}


def first_plugins(step: ClaimedStep) -> tuple[RegisteredPlugin, ...]:
    """The plugins that the step calls first: of the gates one, of other plugins all that are not settled."""
    settled = settled_calls(step)
    plugins = choose(step.stage, step.plugins, step.kind, step.header).plugins
    unsettled = tuple(plugin for plugin in plugins if plugin.key not in settled)
    return unsettled[:1] if step.stage is Stage.GATES else unsettled


def next_call_number(step: ClaimedStep, plugin: RegisteredPlugin) -> int:
    """The number of the plugin's next call for this job and stage, from 1."""
    calls = (one.call_number for one in step.trail if one.plugin_key == plugin.key and one.outcome in _CALLED)
    return 1 + max(calls, default=0)


def budget(plugins: Sequence[RegisteredPlugin]) -> float:
    """Seconds that the calls of these plugins may take together."""
    return max([settings().stage_budget_seconds, *(plugin.timeout_seconds for plugin in plugins)])


def call(
    step: ClaimedStep, plugin: RegisteredPlugin, body: bytes, deadline: float, read: Callable[[bytes], Value]
) -> Answered[Value] | Unanswered:
    """Call one plugin. `read` parses the answer's body, or raises BadAnswer. `deadline` is a reading of `time.monotonic()`."""
    plugin_call = PluginCall(step.job_id, step.stage, plugin.key, next_call_number(step, plugin))
    with tracing.span(
        "plugin call", step.traceparent, tracing.Kind.CLIENT, plugin=plugin.key, call_number=plugin_call.call_number
    ) as span:
        result = _call(step, plugin, plugin_call, body, deadline, read, span.traceparent)
        span.set("pipeline.outcome", result.entry.outcome)
        span.set("pipeline.attempts", result.entry.attempts)
    return result


def _call(
    step: ClaimedStep,
    plugin: RegisteredPlugin,
    plugin_call: PluginCall,
    body: bytes,
    deadline: float,
    read: Callable[[bytes], Value],
    traceparent: str,
) -> Answered[Value] | Unanswered:
    started_at, started = now(), time.monotonic()

    def entry(outcome: TrailOutcome, attempts: int, reason: str = "") -> TrailEntry:
        earlier = step.unreachable.get(plugin.key)
        return TrailEntry(
            plugin_key=plugin.key,
            outcome=outcome,
            started_at=started_at,
            call_number=plugin_call.call_number,
            attempts=attempts + (earlier.attempts if earlier else 0),
            duration_ms=round((time.monotonic() - started) * 1000),
            reason=reason,
        )

    attempts = 0
    try:
        reply = client().call(
            plugin.endpoint,
            body,
            job_id=step.job_id,
            idempotency_key=plugin_call.idempotency_key,
            deadline=deadline,
            request_id=step.request_id,
            traceparent=traceparent,
        )
        attempts = reply.attempts
        value = without_secrets(plugin, read(reply.body), body, reply.body)
        return Answered(plugin=plugin, value=value, entry=entry(TrailOutcome.ANSWERED, attempts))
    except CallFailed as failure:
        failure.cause = mask(failure.cause, plugin.endpoint.secrets)
        return _unanswered(step, plugin, failure, entry(TrailOutcome.FAILED, attempts or failure.attempts))
    finally:
        shares().answered(step.owner, plugin)


def without_secrets(plugin: RegisteredPlugin, value: Value, request: bytes, answer: bytes) -> Value:
    """The value of an answer with the plugin's own secrets masked in its texts, since people get to see them.

    A TaskSet has to run as it was answered: one that has them is refused. Raises BadAnswer.
    """
    secrets = plugin.endpoint.secrets
    if plugin.type not in _ANSWERS_TASKSET:
        return cast(Value, masked(value, secrets))
    if secrets and repeats(json.loads(answer), secrets) and not repeats(json.loads(request), secrets):
        raise BadAnswer(
            "its answer repeats the feature's authorization or signingSecret, which all readers of jobs would see"
        )
    return value


def _unanswered(step: ClaimedStep, plugin: RegisteredPlugin, failure: CallFailed, entry: TrailEntry) -> Unanswered:
    moment = now()
    earlier = step.unreachable.get(plugin.key)
    since = earlier.since if earlier else entry.started_at
    until = since + timedelta(seconds=plugin.patience_seconds)
    postponements = earlier.postponements if earlier else 0
    at_limit = isinstance(failure, ConcurrencyLimit)
    if isinstance(failure, PluginUnavailable):
        after = f" ({entry.attempts} attempt{'' if entry.attempts == 1 else 's'})" if entry.attempts else ""
        reason = f"{plugin.key} has been unavailable since {since:%Y-%m-%dT%H:%M:%SZ}{after}: {failure.cause}"
    elif isinstance(failure, JobRejected):
        reason = f"{plugin.key} rejected the job: {failure.cause}"
    else:
        reason = f"{plugin.key} answered badly: {failure.cause}"
    return Unanswered(
        plugin=plugin,
        policy=plugin.failure_policy,
        reason=reason,
        entry=entry,
        waits=at_limit or (isinstance(failure, PluginUnavailable) and moment < until),
        unreachable=earlier
        if at_limit
        else Unreachable(since=since, attempts=entry.attempts, postponements=postponements + 1),
        pause=_pause(postponements, failure, None if at_limit else (until - moment).total_seconds()),
        rejected=isinstance(failure, JobRejected),
    )


def _pause(postponements: int, failure: CallFailed, left: float | None) -> float:
    requested = failure.retry_after if isinstance(failure, PluginUnavailable) else None
    pause = max(min(2.0**postponements, MAX_PAUSE) * random.uniform(0.75, 1.0), requested or 0.0)
    return pause if left is None else min(pause, max(left, 0.1))


def call_in_parallel(
    step: ClaimedStep,
    plugins: Sequence[RegisteredPlugin],
    body: bytes,
    read: Callable[[RegisteredPlugin, bytes], Value],
) -> list[Answered[Value] | Unanswered]:
    """Call plugins that do not depend on each other, in parallel; the results in the plugins' order."""
    deadline = time.monotonic() + budget(plugins)

    def call_one(plugin: RegisteredPlugin) -> Answered[Value] | Unanswered:
        return call(step, plugin, body, deadline, lambda answer: read(plugin, answer))

    if len(plugins) < 2:
        return [call_one(plugin) for plugin in plugins]
    with ThreadPoolExecutor(min(len(plugins), MAX_PARALLEL), thread_name_prefix="plugin") as pool:
        return list(pool.map(call_one, plugins))


def outcome_of_failures(results: Sequence[Answered[Any] | Unanswered], entries: Sequence[TrailEntry]) -> Outcome | None:
    """The outcome for a stage in which plugins gave no usable answer; None when the stage can continue without them.

    `entries` are the trail entries of the answers. An unavailable plugin postpones the step, and plugins that answered are
    not called again. A plugin whose policy is `Fail` fails the job at once.
    """
    missing = [result for result in results if isinstance(result, Unanswered)]
    waiting = [result for result in missing if result.waits]
    given_up = [result for result in missing if not result.waits]
    for result in given_up:
        if result.rejected:
            return Fail(trail=[*entries, _recorded(result, TrailOutcome.REJECTED)], reason=result.reason)
        if result.policy is FailurePolicy.FAIL:
            return Fail(trail=[*entries, _recorded(result, TrailOutcome.FAILED)], reason=result.reason)
    ignored = [_recorded(result, TrailOutcome.IGNORED) for result in given_up if result.policy is FailurePolicy.IGNORE]
    for result in given_up:
        if result.policy is FailurePolicy.SUSPEND:
            return Suspend(
                trail=[*entries, *ignored, _recorded(result, TrailOutcome.SUSPENDED)],
                plugin_key=result.plugin.key,
                reason=result.reason,
            )
    if waiting:
        return Postpone(
            trail=[*entries, *ignored],
            reason=waiting[0].reason,
            seconds=min(result.pause for result in waiting),
            unreachable={result.plugin.key: result.unreachable for result in waiting if result.unreachable},
        )
    return None


def ignored_entries(results: Sequence[Answered[Any] | Unanswered]) -> list[TrailEntry]:
    """The trail entries of the plugins that the stage continues without."""
    return [_recorded(result, TrailOutcome.IGNORED) for result in results if isinstance(result, Unanswered)]


def _recorded(result: Unanswered, outcome: TrailOutcome) -> TrailEntry:
    return replace(result.entry, outcome=outcome, reason=result.reason)
