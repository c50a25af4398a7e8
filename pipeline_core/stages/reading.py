"""The answers that are TaskSets, read and checked: by the stages, and by the check of a plugin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline_core.plugins import answers
from pipeline_core.stages.tasksets import as_bad_answer, check_submitted, policy_for_additions
from pipeline_core.taskset import additive, document, schema
from pipeline_core.taskset.change import TaskSetChange
from pipeline_core.taskset.schema import allowed_namespace


def translation(body: bytes, job_id: str, namespace: str) -> dict[str, Any]:
    """The TaskSet in a translator's answer, named after the job; `namespace` is for one that names none. Raises BadAnswer."""
    answer = answers.taskset(body)
    with as_bad_answer():
        schema.check_size(answer)
        schema.check(answer)
        named = allowed_namespace(document.namespace(answer) or namespace, "metadata.namespace")
        check_submitted(answer)
    return document.named(answer, job_id, named)


def decoration(base: Mapping[str, Any], body: bytes) -> TaskSetChange:
    """What a decorator's answer adds to `base`. Raises BadAnswer."""
    answer = answers.taskset(body)
    with as_bad_answer():
        schema.check_size(answer)
        return additive.decoration(base, answer, policy_for_additions())


def binding(base: Mapping[str, Any], body: bytes) -> TaskSetChange:
    """What a binder's answer does to `base`. Raises BadAnswer."""
    answer = answers.taskset(body)
    with as_bad_answer():
        schema.check_size(answer)
        return additive.binding(base, answer, policy_for_additions())
