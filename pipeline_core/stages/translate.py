"""Translation: exactly one translator makes the user's job a TaskSet; a job that is one already needs none."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from pipeline_core.plugins import answers
from pipeline_core.plugins.types import FailurePolicy
from pipeline_core.stages import pod_rules
from pipeline_core.stages.asking import Unanswered, ask, budget, encode, settle
from pipeline_core.stages.choice import choose
from pipeline_core.stages.order import Stage
from pipeline_core.stages.outcomes import Advance, Claim, Fail, Outcome
from pipeline_core.stages.refusal import as_bad_answer
from pipeline_core.taskset import document as taskset
from pipeline_core.taskset import schema
from pipeline_core.taskset.schema import allowed_namespace


def run(claim: Claim) -> Outcome:
    """Ask the one translator that matches."""
    choice = choose(Stage.TRANSLATE, claim.plugins, claim.kind, claim.header)
    if choice.fails:
        return Fail(trail=(), reason=choice.reason)
    if not choice.asked:
        return Advance()
    (translator,) = choice.asked
    deadline = time.monotonic() + budget(choice.asked)
    result = ask(claim, translator, encode(claim), deadline, lambda body: read(body, claim))
    if isinstance(result, Unanswered):
        # There is no job without its TaskSet, so a translator cannot be done without.
        needed = replace(result, policy=FailurePolicy.FAIL) if result.policy is FailurePolicy.IGNORE else result
        return settle([needed], ()) or Fail(trail=[result.entry], reason=result.reason)
    document = result.value
    entry = replace(result.entry, patch=[{"op": "replace", "path": "", "value": document}])
    return Advance(trail=[entry], taskset=document, namespace=taskset.namespace(document))


def read(body: bytes, claim: Claim) -> dict[str, Any]:
    """The TaskSet of a translator's answer, under the job's name. Raises BadAnswer."""
    document = answers.taskset(body)
    with as_bad_answer():
        schema.check(document)
        schema.check_size(document)
        namespace = allowed_namespace(taskset.namespace(document) or claim.namespace, "metadata.namespace")
        pod_rules.check_submitted(document)
    return taskset.named(document, claim.job_id, namespace)
