"""From a pod's status to its replica's report and the unit's result, by the table of `rules`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pipeline_core.clusters.base import ReplicaReport
from pipeline_core.clusters.kubernetes.podview import PodView
from pipeline_core.clusters.kubernetes.rules import FAILED, RULES, RUNNING, WAITING, Finding, Limits, Rule, UnitResult
from pipeline_core.states import ReplicaState

DIAGNOSTICS_BYTES = 2048


@dataclass(frozen=True, slots=True)
class Judgement:
    """A replica's report, with the unit's result when it has ended (None for one that was stopped)."""

    report: ReplicaReport
    result: UnitResult | None = None
    end: bool = False


def judge(pod: Mapping[str, Any], now: datetime, limits: Limits) -> Judgement:
    """What a pod's status says of its replica. Raises KeyError or ValueError when it is no pod of ours."""
    return judge_view(PodView(pod, now), limits)


def judge_view(view: PodView, limits: Limits) -> Judgement:
    """The same of a pod that was read already."""
    rule, finding = next((rule, found) for rule in RULES if (found := rule.find(view, limits)) is not None)
    state = finding.state or rule.state or (RUNNING if view.began else WAITING)
    result = finding.result or rule.result
    if state is FAILED and result is None:
        result = UnitResult.ERROR if view.began else UnitResult.FAIL
    return Judgement(_report(view, state, rule, finding), result if state.ended else None, finding.end)


def count_results(judgements: Iterable[Judgement]) -> dict[str, int]:
    """How many tries came to each result."""
    return dict(Counter(judgement.result.value for judgement in judgements if judgement.result))


def _report(view: PodView, state: ReplicaState, rule: Rule, finding: Finding) -> ReplicaReport:
    named = view.failed or next(iter(view.mains), None)
    return ReplicaReport(
        role=view.key.role,
        index=view.key.index,
        attempt=view.key.attempt,
        state=state,
        reason=rule.reason if finding.reason is None else finding.reason,
        exit_code=finding.exit_code,
        diagnostics=finding.message.encode()[-DIAGNOSTICS_BYTES:].decode(errors="ignore"),
        started_at=view.began,
        finished_at=(view.finished or view.now) if state.ended else None,
        container_id=str(named.status.get("containerID") or "") if named else "",
        host_ip=str(view.status.get("hostIP") or ""),
        pod_name=str(view.metadata["name"]),
        pod_uid=str(view.metadata.get("uid") or ""),
        pod_ip=str(view.status.get("podIP") or ""),
    )
