"""Translation: exactly one translator turns the user's job into a TaskSet; a job that is a TaskSet already needs none."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from pipeline_core.plugins import answers
from pipeline_core.plugins.types import FailurePolicy
from pipeline_core.stages.calls import Unanswered, budget, call, outcome_of_failures, request_body
from pipeline_core.stages.choice import choose
from pipeline_core.stages.names import Stage
from pipeline_core.stages.outcomes import Advance, ClaimedStep, Fail, Outcome
from pipeline_core.stages.tasksets import as_bad_answer, check_submitted
from pipeline_core.taskset import document as taskset
from pipeline_core.taskset import schema
from pipeline_core.taskset.schema import allowed_namespace


def run(step: ClaimedStep) -> Outcome:
    """Call the one translator that matches."""
    choice = choose(Stage.TRANSLATE, step.plugins, step.kind, step.header)
    if choice.fails:
        return Fail(trail=(), reason=choice.reason)
    if not choice.plugins:
        return Advance()
    (translator,) = choice.plugins
    deadline = time.monotonic() + budget(choice.plugins)
    result = call(step, translator, request_body(step), deadline, lambda body: read(body, step))
    if isinstance(result, Unanswered):
        # Without a TaskSet there is nothing to launch, so a translator cannot be ignored.
        needed = replace(result, policy=FailurePolicy.FAIL) if result.policy is FailurePolicy.IGNORE else result
        return outcome_of_failures([needed], ()) or Fail(trail=[result.entry], reason=result.reason)
    document = result.value
    entry = replace(result.entry, patch=[{"op": "replace", "path": "", "value": document}])
    return Advance(trail=[entry], taskset=document, namespace=taskset.namespace(document))


def read(body: bytes, step: ClaimedStep) -> dict[str, Any]:
    """The TaskSet in a translator's answer, checked and named after the job. Raises BadAnswer."""
    document = answers.taskset(body)
    with as_bad_answer():
        schema.check_size(document)
        schema.check(document)
        namespace = allowed_namespace(taskset.namespace(document) or step.namespace, "metadata.namespace")
        check_submitted(document)
    return taskset.named(document, step.job_id, namespace)
