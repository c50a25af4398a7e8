"""Decoration: every matching decorator is given the same TaskSet, side by side; what they add is merged in sequence
order, and none sees another's work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jsonpatch

from pipeline_core.errors import WrongParameter
from pipeline_core.features.snapshot import RegisteredPlugin
from pipeline_core.plugins import answers
from pipeline_core.stages import pod_rules
from pipeline_core.stages.asking import Answered, answered, ask_side_by_side, encode, ignored_entries, settle
from pipeline_core.stages.choice import choose
from pipeline_core.stages.order import Stage
from pipeline_core.stages.outcomes import Advance, Claim, Entry, Fail, Outcome, TrailOutcome
from pipeline_core.stages.refusal import as_bad_answer, described
from pipeline_core.taskset.additive import decoration
from pipeline_core.taskset.change import TaskSetChange, patch
from pipeline_core.taskset.merge import decorated
from pipeline_core.taskset.schema import check_size


def run(claim: Claim) -> Outcome:
    """Ask those that have not answered yet, and merge what all have added."""
    base = claim.job or {}
    plugins = choose(Stage.DECORATE, claim.plugins, claim.kind, claim.header).asked
    earlier = answered(claim)

    def read(plugin: RegisteredPlugin, body: bytes) -> TaskSetChange:
        answer = answers.taskset(body)
        with as_bad_answer():
            check_size(answer)
            return decoration(base, answer, pod_rules.for_additions())

    results = ask_side_by_side(claim, [plugin for plugin in plugins if plugin.key not in earlier], encode(claim), read)
    entries = [
        replace(result.entry, patch=patch(base, result.value)) for result in results if isinstance(result, Answered)
    ]
    if outcome := settle(results, entries):
        return outcome
    changes = {result.plugin.key: result.value for result in results if isinstance(result, Answered)}
    changes.update(
        {key: again(base, entry) for key, entry in earlier.items() if entry.outcome is TrailOutcome.ANSWERED}
    )
    try:
        document = decorated(base, [(plugin.key, changes[plugin.key]) for plugin in plugins if plugin.key in changes])
        check_size(document, "the TaskSet with all that its decorators add")
    except WrongParameter as error:
        return Fail(trail=entries, reason=described(error))
    return Advance(trail=[*entries, *ignored_entries(results)], taskset=document)


def again(base: Mapping[str, Any], entry: Entry) -> TaskSetChange:
    """The change of a decorator that answered before the stage was interrupted."""
    return decoration(base, jsonpatch.apply_patch(base, entry.patch or []), pod_rules.for_additions())
