"""The pod policy for TaskSets that users submit, as the operator sets it."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest

from api.schemas.jobs import Submit
from pipeline_core.jobs.submission import Submission
from pipeline_core.settings import settings
from pipeline_core.stages import tasksets, translate
from pipeline_core.stages.names import Stage
from pipeline_core.stages.outcomes import Advance, Fail
from pipeline_core.taskset.pod_policy import PodPolicyError
from tests.builders import taskset
from tests.unit.stages.conftest import HEADER, Plugins, plugin

POD = "spec.roles[0].template.spec"


def privileged() -> dict[str, Any]:
    made = copy.deepcopy(taskset())
    pod = made["spec"]["roles"][0]["template"]["spec"]
    pod["hostNetwork"] = True
    pod["containers"][0]["securityContext"] = {"privileged": True}
    pod["volumes"] = [{"name": "data", "hostPath": {"path": "/data/sets"}}]
    return made


@pytest.fixture
def policy(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets PIPELINE_POD_POLICY_SUBMITTED, for the Kubernetes driver."""

    def set_policy(level: str, *host_paths: str) -> None:
        chosen = replace(settings(), pod_policy_submitted=level, host_paths=host_paths, cluster_driver="kubernetes")
        monkeypatch.setattr(tasksets, "settings", lambda: chosen)

    return set_policy


def submission(job: dict[str, Any]) -> Submission:
    return Submit().read({"userID": "u1", "jobName": "train", "jobKind": "TaskSet", "job": job})


def test_users_may_submit_any_pod_unless_the_operator_says_otherwise() -> None:
    assert submission(privileged()).job == privileged()


def test_a_submitted_pod_beyond_the_baseline_is_refused_with_all_that_is_wrong(policy: Any) -> None:
    policy("baseline")
    with pytest.raises(PodPolicyError) as caught:
        submission(privileged())
    assert sorted(caught.value.errors) == [
        f"{POD}.containers[0].securityContext.privileged",
        f"{POD}.hostNetwork",
        f"{POD}.volumes[0].hostPath.path",
    ]
    assert submission(taskset()).job == taskset()


def test_directories_that_the_operator_names_may_be_mounted(policy: Any) -> None:
    policy("baseline", "/data")
    with pytest.raises(PodPolicyError) as caught:
        submission(privileged())
    assert f"{POD}.volumes[0].hostPath.path" not in caught.value.errors


def test_a_translated_pod_is_held_to_the_same(policy: Any, plugins: Plugins, claim: Any) -> None:
    header = {**HEADER, "jobKind": "Echo"}
    plugins.answers["t"] = privileged()

    def translated() -> Any:
        registered = [plugin(Stage.TRANSLATE, "t")]
        return translate.run(claim(Stage.TRANSLATE, registered, {"kind": "Echo"}, kind="Echo", header=header))

    assert isinstance(translated(), Advance)
    policy("baseline")
    refused = translated()
    assert isinstance(refused, Fail)
    assert f"{POD}.hostNetwork" in refused.reason
