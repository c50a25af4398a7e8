"""SchedulerBinder: weighs what was advised on the topic `priority`, and names the scheduler.

The mean of all advice becomes a label of the pods, where a scheduler can read it. Other topics, and advice that is no
number, are passed over: who uses factors decides which make sense.
"""

from __future__ import annotations

import copy
import math
from typing import Any

TOPIC = "priority"
LABEL = "example.com/priority"
WITHOUT_ADVICE = 5


def bind(packet: dict[str, Any], scheduler: str) -> dict[str, Any]:
    """The whole TaskSet of `packet["job"]`, bound to `scheduler`."""
    taskset = copy.deepcopy(packet["job"])
    priority = str(weigh(packet["factors"].get(TOPIC, [])))
    for role in taskset["spec"]["roles"]:
        template = role["template"]
        template["metadata"] = template.get("metadata") or {}
        template["metadata"]["labels"] = {**(template["metadata"].get("labels") or {}), LABEL: priority}
        template["spec"]["schedulerName"] = scheduler
    return taskset


def weigh(factors: list[dict[str, Any]]) -> int:
    """The mean of all advice that is a finite number, rounded."""
    advice = [number for factor in factors if (number := as_number(factor["advice"])) is not None]
    return round(sum(advice) / len(advice)) if advice else WITHOUT_ADVICE


def as_number(advice: Any) -> float | None:
    if isinstance(advice, bool) or not isinstance(advice, str | int | float):
        return None
    try:
        number = float(advice)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
