"""Binding: at most one binder chooses the scheduler; without one the cluster's default schedules the pods."""

from __future__ import annotations

import time
from dataclasses import replace

from pipeline_core.plugins import answers
from pipeline_core.stages import pod_rules
from pipeline_core.stages.asking import Unanswered, ask, budget, encode, ignored_entries, settle
from pipeline_core.stages.choice import choose
from pipeline_core.stages.order import Stage
from pipeline_core.stages.outcomes import Advance, Claim, Fail, Outcome
from pipeline_core.stages.refusal import as_bad_answer
from pipeline_core.taskset.additive import binding
from pipeline_core.taskset.change import TaskSetChange, patch
from pipeline_core.taskset.merge import decorated
from pipeline_core.taskset.schema import check_size


def run(claim: Claim) -> Outcome:
    """Ask the binder that matches, if any does."""
    base = claim.job or {}
    choice = choose(Stage.BIND, claim.plugins, claim.kind, claim.header)
    if choice.fails:
        return Fail(trail=(), reason=choice.reason)
    if not choice.asked:
        return Advance()
    (binder,) = choice.asked

    def read(body: bytes) -> TaskSetChange:
        answer = answers.taskset(body)
        with as_bad_answer():
            check_size(answer)
            return binding(base, answer, pod_rules.for_additions())

    result = ask(claim, binder, encode(claim), time.monotonic() + budget(choice.asked), read)
    if isinstance(result, Unanswered):
        return settle([result], ()) or Advance(trail=ignored_entries([result]))
    entry = replace(result.entry, patch=patch(base, result.value))
    return Advance(trail=[entry], taskset=decorated(base, [(binder.key, result.value)]))
