"""Asking plugins, and what follows when one cannot be asked: patience first, then the plugin's failure policy."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Generic, TypeVar

from pipeline_core.common.clock import now
from pipeline_core.features.snapshot import RegisteredPlugin
from pipeline_core.plugins.client import client
from pipeline_core.plugins.failures import CallFailed, NoRoom, NotToBeHad
from pipeline_core.plugins.packet import Asking, Packet
from pipeline_core.plugins.types import FailurePolicy
from pipeline_core.settings import settings
from pipeline_core.stages.outcomes import Claim, Entry, Fail, Outcome, Patience, Postpone, Suspend, TrailOutcome

Value = TypeVar("Value")

MAX_SIDE_BY_SIDE = 16
"""Plugins of one stage and one job that are asked at the same time."""
LONGEST_PAUSE = 30.0
"""Seconds between two rounds of asking a plugin that is not to be had."""

_DONE = frozenset({TrailOutcome.ANSWERED, TrailOutcome.IGNORED})
_ASKED = _DONE | {TrailOutcome.SUSPENDED, TrailOutcome.FAILED}


@dataclass(frozen=True, kw_only=True, slots=True)
class Answered(Generic[Value]):
    """A plugin's answer, read and checked."""

    plugin: RegisteredPlugin
    value: Value
    entry: Entry


@dataclass(frozen=True, kw_only=True, slots=True)
class Unanswered:
    """There is no usable answer. `patience` is set while the plugin is worth waiting for; `pause` is then in seconds.

    `policy` is what its registration asks for otherwise.
    """

    plugin: RegisteredPlugin
    policy: FailurePolicy
    reason: str
    entry: Entry
    patience: Patience | None
    waits: bool
    pause: float


Result = Answered[Value] | Unanswered


def encode(claim: Claim) -> bytes:
    """The body that every plugin of this stage is sent."""
    return Packet(claim.factors, claim.header, claim.job or {}).encode()


def answered(claim: Claim) -> dict[str, Entry]:
    """The entries of plugins that need not be asked any more, by their keys."""
    latest = {entry.plugin_key: entry for entry in claim.trail if entry.outcome is not TrailOutcome.RESUMED}
    return {key: entry for key, entry in latest.items() if entry.outcome in _DONE}


def number(claim: Claim, plugin: RegisteredPlugin) -> int:
    """Which asking of the plugin for this job the next one is, from 1."""
    return 1 + sum(entry.plugin_key == plugin.key and entry.outcome in _ASKED for entry in claim.trail)


def budget(plugins: Sequence[RegisteredPlugin]) -> float:
    """Seconds that asking these plugins may take together."""
    return max([settings().stage_budget_seconds, *(plugin.timeout_seconds for plugin in plugins)])


def ask(
    claim: Claim, plugin: RegisteredPlugin, body: bytes, deadline: float, read: Callable[[bytes], Value]
) -> Answered[Value] | Unanswered:
    """Ask one plugin. `read` makes the answer's body a value, or raises BadAnswer; `deadline` is monotonic."""
    asking = Asking(claim.job_id, claim.stage, plugin.key, number(claim, plugin))
    started_at, started = now(), time.monotonic()

    def entry(outcome: TrailOutcome, attempts: int, reason: str = "") -> Entry:
        earlier = claim.unreachable.get(plugin.key)
        return Entry(
            plugin_key=plugin.key,
            outcome=outcome,
            started_at=started_at,
            asking=asking.n,
            attempts=attempts + (earlier.attempts if earlier else 0),
            duration_ms=round((time.monotonic() - started) * 1000),
            reason=reason,
        )

    attempts = 0
    try:
        reply = client().call(
            plugin.endpoint,
            body,
            job_id=claim.job_id,
            idempotency_key=asking.idempotency_key,
            deadline=deadline,
            request_id=claim.request_id,
        )
        attempts = reply.attempts
        return Answered(plugin=plugin, value=read(reply.body), entry=entry(TrailOutcome.ANSWERED, attempts))
    except CallFailed as failure:
        return _unanswered(claim, plugin, failure, entry(TrailOutcome.FAILED, attempts or failure.attempts))


def _unanswered(claim: Claim, plugin: RegisteredPlugin, failure: CallFailed, entry: Entry) -> Unanswered:
    moment = now()
    earlier = claim.unreachable.get(plugin.key)
    since = earlier.since if earlier else entry.started_at
    until = since + timedelta(seconds=plugin.patience_seconds)
    full = isinstance(failure, NoRoom)
    if isinstance(failure, NotToBeHad):
        tries = f" ({entry.attempts} attempt{'' if entry.attempts == 1 else 's'})" if entry.attempts else ""
        reason = f"{plugin.key} was not to be had since {since:%Y-%m-%dT%H:%M:%SZ}{tries}: {failure.cause}"
    else:
        reason = f"{plugin.key} answered badly: {failure.cause}"
    return Unanswered(
        plugin=plugin,
        policy=plugin.failure_policy,
        reason=reason,
        entry=entry,
        waits=full or (isinstance(failure, NotToBeHad) and moment < until),
        patience=earlier
        if full
        else Patience(since=since, attempts=entry.attempts, rounds=earlier.rounds + 1 if earlier else 1),
        pause=_pause(earlier.rounds if earlier else 0, failure, None if full else (until - moment).total_seconds()),
    )


def _pause(rounds: int, failure: CallFailed, left: float | None) -> float:
    asked = failure.retry_after if isinstance(failure, NotToBeHad) else None
    pause = max(min(2.0**rounds, LONGEST_PAUSE) * random.uniform(0.75, 1.0), asked or 0.0)
    return pause if left is None else min(pause, max(left, 0.1))


def ask_side_by_side(
    claim: Claim,
    plugins: Sequence[RegisteredPlugin],
    body: bytes,
    read: Callable[[RegisteredPlugin, bytes], Value],
) -> list[Answered[Value] | Unanswered]:
    """Ask plugins that do not depend on each other, all at the same time; the results in the plugins' order."""
    deadline = time.monotonic() + budget(plugins)

    def ask_one(plugin: RegisteredPlugin) -> Answered[Value] | Unanswered:
        return ask(claim, plugin, body, deadline, lambda answer: read(plugin, answer))

    if len(plugins) < 2:
        return [ask_one(plugin) for plugin in plugins]
    with ThreadPoolExecutor(min(len(plugins), MAX_SIDE_BY_SIDE), thread_name_prefix="plugin") as pool:
        return list(pool.map(ask_one, plugins))


def settle(results: Sequence[Answered[Any] | Unanswered], entries: Sequence[Entry]) -> Outcome | None:
    """What the plugins that did not answer make of the stage; None when it can go on without them.

    `entries` are those of the answers. A plugin worth waiting for makes the job wait, and those that answered are not
    asked again; one that may fail the job does so at once.
    """
    missing = [result for result in results if isinstance(result, Unanswered)]
    waiting = [result for result in missing if result.waits]
    given_up = [result for result in missing if not result.waits]
    for result in given_up:
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
            unreachable={result.plugin.key: result.patience for result in waiting if result.patience},
        )
    return None


def ignored_entries(results: Sequence[Answered[Any] | Unanswered]) -> list[Entry]:
    """The entries of plugins that the stage goes on without."""
    return [_recorded(result, TrailOutcome.IGNORED) for result in results if isinstance(result, Unanswered)]


def _recorded(result: Unanswered, outcome: TrailOutcome) -> Entry:
    return replace(result.entry, outcome=outcome, reason=result.reason)
