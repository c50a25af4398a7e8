"""Binding: at most one binder chooses the scheduler; without one the cluster's default schedules the pods."""

from __future__ import annotations

import time
from dataclasses import replace

from pipeline_core.plugins import answers
from pipeline_core.stages.calls import Unanswered, budget, call, ignored_entries, outcome_of_failures, request_body
from pipeline_core.stages.choice import choose
from pipeline_core.stages.names import Stage
from pipeline_core.stages.outcomes import Advance, ClaimedStep, Fail, Outcome
from pipeline_core.stages.tasksets import as_bad_answer, policy_for_additions
from pipeline_core.taskset.additive import binding
from pipeline_core.taskset.change import TaskSetChange, patch
from pipeline_core.taskset.merge import decorated
from pipeline_core.taskset.schema import check_size


def run(step: ClaimedStep) -> Outcome:
    """Call the binder that matches, if any does."""
    base = step.taskset or {}
    choice = choose(Stage.BIND, step.plugins, step.kind, step.header)
    if choice.fails:
        return Fail(trail=(), reason=choice.reason)
    if not choice.plugins:
        return Advance()
    (binder,) = choice.plugins

    def read(body: bytes) -> TaskSetChange:
        answer = answers.taskset(body)
        with as_bad_answer():
            check_size(answer)
            return binding(base, answer, policy_for_additions())

    result = call(step, binder, request_body(step), time.monotonic() + budget(choice.plugins), read)
    if isinstance(result, Unanswered):
        return outcome_of_failures([result], ()) or Advance(trail=ignored_entries([result]))
    entry = replace(result.entry, patch=patch(base, result.value))
    return Advance(trail=[entry], taskset=decorated(base, [(binder.key, result.value)]))
