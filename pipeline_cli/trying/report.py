"""What a trial of a plugin found, for people and as JSON."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import yaml

from pipeline_cli.trying.comparison import Comparison, Decision, Outcome, Verdict
from pipeline_core.taskset.comparison import patch_between

MOST_LINES = 100
"""Lines of a difference that are shown."""


def lines(found: Comparison) -> Iterator[str]:
    """A difference, or why a job was not compared; nothing for what is the same."""
    if found.verdict is Verdict.NOT_COMPARED:
        yield f"{found.job_id}  not compared: {found.message}"
    if found.verdict is Verdict.DIFFERENT and found.then and found.now:
        yield f"{found.job_id}  different"
        yield f"  then  {_sentence(found.then)}  {found.plugin}"
        yield f"  now   {_sentence(found.now)}"
        yield from (f"  {line}" for line in difference(found.then, found.now))


def difference(then: Decision, now: Decision) -> Iterator[str]:
    """The unified diff of what both answered, as YAML; nothing if one of them answered nothing that can be compared."""
    if then.value is None or now.value is None:
        return
    changes = list(difflib.unified_diff(_yaml(then.value), _yaml(now.value), "then", "now", lineterm="", n=3))
    yield from changes[:MOST_LINES]
    if len(changes) > MOST_LINES:
        yield f"… {len(changes) - MOST_LINES} more lines"


def summary(found: Sequence[Comparison]) -> str:
    """How many jobs came to which verdict."""
    counts = Counter(one.verdict for one in found)
    parts = [f"{counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict]]
    return f"{len(found)} past {'job' if len(found) == 1 else 'jobs'}: {', '.join(parts)}"


def document(address: str, plugin_type: str, found: Sequence[Comparison]) -> dict[str, Any]:
    """All of it as JSON. `patch` turns the TaskSet of then into that of now."""
    counts = Counter(one.verdict for one in found)
    return {
        "url": address,
        "type": plugin_type,
        "agrees": agrees(found),
        "counts": {str(verdict): counts[verdict] for verdict in Verdict},
        "jobs": [_as_json(one) for one in found],
    }


def agrees(found: Sequence[Comparison]) -> bool:
    """Whether all jobs were compared, and are decided as they were."""
    return all(one.verdict is Verdict.SAME for one in found)


def _as_json(found: Comparison) -> dict[str, Any]:
    shown: dict[str, Any] = {"jobID": found.job_id, "verdict": found.verdict, "plugin": found.plugin}
    if found.message:
        shown["message"] = found.message
    for name, decision in (("then", found.then), ("now", found.now)):
        shown[name] = _decision(decision) if decision else None
    if found.then and found.now and isinstance(found.then.value, dict) and isinstance(found.now.value, dict):
        shown["patch"] = patch_between(found.then.value, found.now.value)
    return shown


def _decision(decision: Decision) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "outcome": decision.outcome,
        "decision": decision.decision,
        "reason": decision.reason,
    }
    return {**shown, "factors": decision.value} if isinstance(decision.value, list) else shown


def _sentence(decision: Decision) -> str:
    what = decision.decision if decision.outcome is Outcome.ANSWERED else str(decision.outcome)
    return f"{what or decision.outcome}: {decision.reason}" if decision.reason else what or str(decision.outcome)


def _yaml(value: Any) -> list[str]:
    text: str = yaml.safe_dump(value, allow_unicode=True, width=1000)
    return text.splitlines()
