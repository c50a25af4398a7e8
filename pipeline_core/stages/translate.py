"""Translation: exactly one translator turns the user's job into a TaskSet; a job that is a TaskSet already needs none."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from pipeline_core.plugins.types import FailurePolicy
from pipeline_core.stages import reading
from pipeline_core.stages.calls import Unanswered, budget, call, outcome_of_failures, request_body
from pipeline_core.stages.choice import choose
from pipeline_core.stages.names import Stage
from pipeline_core.stages.outcomes import Advance, ClaimedStep, Fail, Outcome
from pipeline_core.taskset import document as taskset


def run(step: ClaimedStep) -> Outcome:
    """Call the one translator that matches."""
    choice = choose(Stage.TRANSLATE, step.plugins, step.kind, step.header)
    if choice.fails:
        return Fail(trail=(), reason=choice.reason)
    if not choice.plugins:
        return Advance()
    (translator,) = choice.plugins
    deadline = time.monotonic() + budget(choice.plugins)

    def read(body: bytes) -> dict[str, Any]:
        return reading.translation(body, step.job_id, step.namespace)

    result = call(step, translator, request_body(step), deadline, read)
    if isinstance(result, Unanswered):
        # Without a TaskSet there is nothing to launch, so a translator cannot be ignored.
        needed = replace(result, policy=FailurePolicy.FAIL) if result.policy is FailurePolicy.IGNORE else result
        return outcome_of_failures([needed], ()) or Fail(trail=[result.entry], reason=result.reason)
    document = result.value
    entry = replace(result.entry, patch=[{"op": "replace", "path": "", "value": document}])
    return Advance(trail=[entry], taskset=document, namespace=taskset.namespace(document))
