"""Checking the TaskSets that users and plugins give, by the pod policies of this installation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pipeline_core.errors import WrongParameter
from pipeline_core.plugins.errors import BadAnswer
from pipeline_core.settings import settings
from pipeline_core.taskset.pod_policy import PodPolicy, check_pods

SHOWN = 3
"""How many errors a reason names; the first ones are enough to begin with."""
_COUNTED = re.compile(r" \(and \d+ more\)$")


def policy_for_additions() -> PodPolicy:
    """What decorators and binders add must keep to this."""
    return PodPolicy(settings().pod_policy == "baseline", settings().host_paths)


def check_submitted(document: Mapping[str, Any]) -> None:
    """Raises PodPolicyError when a TaskSet, as submitted or translated, has pods that this installation does not run."""
    check_pods(document, PodPolicy(settings().pod_policy_submitted == "baseline", settings().host_paths))


@contextmanager
def as_bad_answer() -> Iterator[None]:
    """Raise BadAnswer in place of WrongParameter: what is wrong with the document is wrong with the plugin's answer."""
    try:
        yield
    except WrongParameter as error:
        raise BadAnswer(described(error)) from error


def described(error: WrongParameter) -> str:
    """The error as one sentence, with the first of the errors that its message only counts."""
    others = [f"{path} {texts[0]}" for path, texts in error.errors.items() if texts[0] not in error.message]
    left = len(others) - SHOWN
    more = [f"and {left} more"] if left > 0 else []
    return "; ".join([_COUNTED.sub("", error.message), *others[:SHOWN], *more])
