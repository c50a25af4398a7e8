"""Binding: at most one binder chooses the scheduler; without one the cluster's default schedules the pods."""

from __future__ import annotations

import time
from dataclasses import replace

from pipeline_core.stages import reading
from pipeline_core.stages.calls import Unanswered, budget, call, ignored_entries, outcome_of_failures, request_body
from pipeline_core.stages.choice import choose
from pipeline_core.stages.names import Stage
from pipeline_core.stages.outcomes import Advance, ClaimedStep, Fail, Outcome
from pipeline_core.taskset.change import patch
from pipeline_core.taskset.merge import decorated


def run(step: ClaimedStep) -> Outcome:
    """Call the binder that matches, if any does."""
    base = step.taskset or {}
    choice = choose(Stage.BIND, step.plugins, step.kind, step.header)
    if choice.fails:
        return Fail(trail=(), reason=choice.reason)
    if not choice.plugins:
        return Advance()
    (binder,) = choice.plugins

    deadline = time.monotonic() + budget(choice.plugins)
    result = call(step, binder, request_body(step), deadline, lambda body: reading.binding(base, body))
    if isinstance(result, Unanswered):
        return outcome_of_failures([result], ()) or Advance(trail=ignored_entries([result]))
    entry = replace(result.entry, patch=patch(base, result.value))
    return Advance(trail=[entry], taskset=decorated(base, [(binder.key, result.value)]))
