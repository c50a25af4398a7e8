"""Check the TaskSets of users and plugins against the pod policies of this installation."""

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
"""How many errors a reason names, beside the one in the error's message."""
_COUNTED = re.compile(r" \(and (at least )?(\d+) more\)$")


def policy_for_additions() -> PodPolicy:
    """The policy for what decorators and binders add."""
    return PodPolicy(settings().pod_policy == "baseline", settings().host_paths)


def check_submitted(document: Mapping[str, Any]) -> None:
    """Raises PodPolicyError when a TaskSet, as submitted or translated, has pods that this installation does not run."""
    check_pods(document, PodPolicy(settings().pod_policy_submitted == "baseline", settings().host_paths))


@contextmanager
def as_bad_answer() -> Iterator[None]:
    """Raise BadAnswer in place of WrongParameter, for checks of a document that a plugin answered."""
    try:
        yield
    except WrongParameter as error:
        raise BadAnswer(described(error)) from error


def described(error: WrongParameter) -> str:
    """The error as one sentence, with the first SHOWN of the errors that its message only counts."""
    others = [f"{path} {texts[0]}" for path, texts in error.errors.items() if texts[0] not in error.message][:SHOWN]
    counted = _COUNTED.search(error.message)
    left = int(counted[2]) - len(others) if counted else 0
    more = [f"and {counted[1] or ''}{left} more"] if counted and left > 0 else []
    return "; ".join([_COUNTED.sub("", error.message), *others, *more])
