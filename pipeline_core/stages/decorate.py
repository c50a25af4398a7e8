"""Decoration: every matching decorator gets the same TaskSet, in parallel; their additions are merged in sequence order. No
decorator sees the additions of another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jsonpatch

from pipeline_core.errors import WrongParameter
from pipeline_core.features.snapshot import RegisteredPlugin
from pipeline_core.stages import reading
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
from pipeline_core.stages.outcomes import Advance, ClaimedStep, Fail, Outcome, TrailEntry, TrailOutcome
from pipeline_core.stages.tasksets import described, policy_for_additions
from pipeline_core.taskset.additive import decoration
from pipeline_core.taskset.change import TaskSetChange, patch
from pipeline_core.taskset.merge import decorated
from pipeline_core.taskset.schema import check_size


def run(step: ClaimedStep) -> Outcome:
    """Call the decorators that have not answered yet, and merge the additions of all decorators."""
    base = step.taskset or {}
    plugins = choose(Stage.DECORATE, step.plugins, step.kind, step.header).plugins
    earlier = settled_calls(step)

    def read(plugin: RegisteredPlugin, body: bytes) -> TaskSetChange:
        return reading.decoration(base, body)

    results = call_in_parallel(
        step, [plugin for plugin in plugins if plugin.key not in earlier], request_body(step), read
    )
    entries = [
        replace(result.entry, patch=patch(base, result.value)) for result in results if isinstance(result, Answered)
    ]
    if outcome := outcome_of_failures(results, entries):
        return outcome
    changes = {result.plugin.key: result.value for result in results if isinstance(result, Answered)}
    changes.update(
        {key: recorded_change(base, entry) for key, entry in earlier.items() if entry.outcome is TrailOutcome.ANSWERED}
    )
    try:
        document = decorated(base, [(plugin.key, changes[plugin.key]) for plugin in plugins if plugin.key in changes])
        check_size(document, "the TaskSet with all that its decorators add")
    except WrongParameter as error:
        return Fail(trail=entries, reason=described(error))
    return Advance(trail=[*entries, *ignored_entries(results)], taskset=document)


def recorded_change(base: Mapping[str, Any], entry: TrailEntry) -> TaskSetChange:
    """The change of a decorator that answered before the step was postponed, from its trail entry."""
    return decoration(base, jsonpatch.apply_patch(base, entry.patch or []), policy_for_additions())
