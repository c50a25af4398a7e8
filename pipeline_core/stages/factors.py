"""Factors: every matching generator is called, in parallel; their factors are joined by topic in sequence order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from pipeline_core.plugins import answers
from pipeline_core.plugins.answers import Factor
from pipeline_core.stages.calls import (
    Answered,
    call_in_parallel,
    ignored_entries,
    outcome_of_failures,
    request_body,
    settled_calls,
)
from pipeline_core.stages.choice import choose
from pipeline_core.stages.names import Stage
from pipeline_core.stages.outcomes import Advance, ClaimedStep, Outcome, TrailEntry


def run(step: ClaimedStep) -> Outcome:
    """Call the generators that have not answered yet."""
    plugins = choose(Stage.FACTORS, step.plugins, step.kind, step.header).plugins
    earlier = settled_calls(step)
    results = call_in_parallel(
        step,
        [plugin for plugin in plugins if plugin.key not in earlier],
        request_body(step),
        lambda _, body: answers.factors(body),
    )
    entries = [_entry(result) for result in results if isinstance(result, Answered)]
    if outcome := outcome_of_failures(results, entries):
        return outcome
    found = {
        **{key: entry.factors or () for key, entry in earlier.items()},
        **{e.plugin_key: e.factors or () for e in entries},
    }
    joined = [factor for plugin in plugins for factor in found.get(plugin.key, ())]
    return Advance(trail=[*entries, *ignored_entries(results)], factors=by_topic(joined) if joined else None)


def _entry(result: Answered[tuple[Factor, ...]]) -> TrailEntry:
    return replace(result.entry, factors=[asdict(factor) for factor in result.value])


def by_topic(factors: list[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Factors in their order, under their topics."""
    topics: dict[str, list[Mapping[str, Any]]] = {}
    for factor in factors:
        topics.setdefault(factor["topic"], []).append(factor)
    return topics
