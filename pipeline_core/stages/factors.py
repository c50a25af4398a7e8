"""Factors: every matching generator is asked, side by side, and what they say is joined by topic in sequence order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from pipeline_core.plugins import answers
from pipeline_core.plugins.answers import Factor
from pipeline_core.stages.asking import Answered, answered, ask_side_by_side, encode, ignored_entries, settle
from pipeline_core.stages.choice import choose
from pipeline_core.stages.order import Stage
from pipeline_core.stages.outcomes import Advance, Claim, Entry, Outcome


def run(claim: Claim) -> Outcome:
    """Ask those that have not answered yet."""
    plugins = choose(Stage.FACTORS, claim.plugins, claim.kind, claim.header).asked
    earlier = answered(claim)
    results = ask_side_by_side(
        claim,
        [plugin for plugin in plugins if plugin.key not in earlier],
        encode(claim),
        lambda _, body: answers.factors(body),
    )
    entries = [_entry(result) for result in results if isinstance(result, Answered)]
    if outcome := settle(results, entries):
        return outcome
    found = {
        **{key: entry.factors or () for key, entry in earlier.items()},
        **{e.plugin_key: e.factors or () for e in entries},
    }
    joined = [factor for plugin in plugins for factor in found.get(plugin.key, ())]
    return Advance(trail=[*entries, *ignored_entries(results)], factors=by_topic(joined) if joined else None)


def _entry(result: Answered[tuple[Factor, ...]]) -> Entry:
    return replace(result.entry, factors=[asdict(factor) for factor in result.value])


def by_topic(factors: list[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Factors in their order, under their topics."""
    topics: dict[str, list[Mapping[str, Any]]] = {}
    for factor in factors:
        topics.setdefault(factor["topic"], []).append(factor)
    return topics
