"""The pod policies that this installation has: what plugins may add, and what may be submitted or translated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline_core.settings import settings
from pipeline_core.taskset.pod_policy import PodPolicy, check_pods


def for_additions() -> PodPolicy:
    """What decorators and binders add must keep to this."""
    return PodPolicy(settings().pod_policy == "baseline", settings().host_paths)


def check_submitted(document: Mapping[str, Any]) -> None:
    """Raises PodPolicyError when a TaskSet, as submitted or translated, has pods that this installation does not run."""
    check_pods(document, PodPolicy(settings().pod_policy_submitted == "baseline", settings().host_paths))
