"""What plugins answered to past packets, as it is shown."""

from __future__ import annotations

from typing import Any

import jsonpatch

from pipeline_core.common.clock import now
from pipeline_core.jobs.past_packets import last_decisions, shown_change
from pipeline_core.stages.names import Stage
from pipeline_core.stages.outcomes import TrailEntry, TrailOutcome
from pipeline_core.taskset.masking import MASK, masked
from tests.builders import container, role, taskset_of


def call(key: str, outcome: TrailOutcome, decision: str = "") -> TrailEntry:
    return TrailEntry(plugin_key=key, outcome=outcome, started_at=now(), decision=decision)


def test_of_each_plugin_the_last_decision_counts_and_no_failure() -> None:
    calls = [
        call("a", TrailOutcome.ANSWERED, "suspend"),
        call("b", TrailOutcome.IGNORED),
        call("a", TrailOutcome.ANSWERED, "pass"),
        call("a", TrailOutcome.FAILED),
        call("c", TrailOutcome.REJECTED),
        call("", TrailOutcome.RESUMED),
    ]
    assert [(one.plugin_key, one.decision) for one in last_decisions(calls)] == [("a", "pass"), ("c", "")]
    assert [one.plugin_key for one in last_decisions(calls, "c")] == ["c"]
    assert last_decisions(calls, "b") == []


def env(*variables: tuple[str, str]) -> Any:
    return taskset_of(role("main", container(env=[{"name": name, "value": text} for name, text in variables])))


def test_a_change_is_shown_against_the_shown_job_without_secrets() -> None:
    before, after = env(("API_TOKEN", "hidden"), ("LEVEL", "1")), env(("API_TOKEN", "hidden"), ("LEVEL", "2"))
    path = "/spec/roles/0/template/spec/containers/0/env/1/value"
    shown = shown_change(before, [{"op": "replace", "path": path, "value": "2"}], Stage.BIND)
    assert shown == [{"op": "replace", "path": path, "value": "2"}], "what is no secret is no secret by its path"
    assert jsonpatch.apply_patch(masked(before), shown) == masked(after)
    front = {"op": "add", "path": path.removesuffix("/1/value") + "/0", "value": {"name": "PASSWORD", "value": "x"}}
    (added,) = shown_change(before, [front], Stage.DECORATE)
    assert added["value"] == {"name": "PASSWORD", "value": MASK}


def test_a_translation_is_shown_whole() -> None:
    whole = env(("API_TOKEN", "hidden"))
    patch = [{"op": "replace", "path": "", "value": whole}]
    shown = shown_change({"kind": "Script"}, patch, Stage.TRANSLATE)
    assert shown == [{"op": "replace", "path": "", "value": masked(whole)}]
