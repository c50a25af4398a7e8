"""What pods' statuses mean: the table, case by case."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_core.clusters.kubernetes.pod_rules import RULES, PodOutcome, WaitLimits, count_results, judge
from pipeline_core.clusters.kubernetes.pod_view import PodView
from pipeline_core.states import ReplicaState
from tests.unit.clusters.kubernetes.pods import NOW, at, ended, make, running, waiting

LIMITS = WaitLimits(pending=timedelta(seconds=300), scheduling=timedelta(seconds=3600))
W, R, S, F, STOPPED = (
    ReplicaState.WAITING,
    ReplicaState.RUNNING,
    ReplicaState.SUCCEEDED,
    ReplicaState.FAILED,
    ReplicaState.STOPPED,
)
DONE, FAIL, ERROR = PodOutcome.FINISHED, PodOutcome.FAIL, PodOutcome.ERROR
SIDECAR = {"pipeline/sidecars": '["c1"]'}


def ending(reason: str, since: float, **annotations: str) -> dict[str, str]:
    return {"pipeline/ending-for": reason, "pipeline/ending-since": at(since), **annotations}


def condition(kind: str, status: str, **fields: str) -> dict[str, Any]:
    return {"conditions": [{"type": kind, "status": status, **fields}]}


UNSCHEDULABLE = condition("PodScheduled", "False", reason="Unschedulable", message="0/3 nodes")
ON_FAILURE = {"restartPolicy": "OnFailure"}
CRASHED = {"lastState": {"terminated": {"exitCode": 9, "startedAt": at(-40), "finishedAt": at(-30)}}}

CASES: dict[str, tuple[dict[str, Any], ReplicaState, str, int | None, PodOutcome | None]] = {
    "no scheduler has seen it": (make("Pending", node=""), W, "Pending", None, None),
    "no node is free": (make("Pending", node="", **UNSCHEDULABLE), W, "Unschedulable", None, None),
    "no node was free for too long": (
        make("Pending", node="", age=3700, **UNSCHEDULABLE), F, "Unschedulable", None, FAIL,
    ),
    "no scheduler has seen it for too long": (make("Pending", node="", age=3700), F, "Unschedulable", None, FAIL),
    "a gate holds it back for days": (
        make("Pending", node="", age=10**6, **condition("PodScheduled", "False", reason="SchedulingGated")),
        W, "SchedulingGated", None, None,
    ),
    "it was bound just now": (make("Pending"), W, "ContainerCreating", None, None),
    "its containers are being created": (make("Pending", waiting("ContainerCreating")), W, "ContainerCreating", None, None),
    "a large image takes its time": (
        make("Pending", waiting("ContainerCreating"), age=1700), W, "ContainerCreating", None, None,
    ),
    "a volume never comes": (make("Pending", waiting("ContainerCreating"), age=1900), F, "ContainerCreating", None, FAIL),
    "its image cannot be pulled": (make("Pending", waiting("ErrImagePull")), W, "ImagePullBackOff", None, None),
    "its image cannot be pulled for too long": (
        make("Pending", waiting("ImagePullBackOff"), age=301), F, "ImagePullBackOff", None, FAIL,
    ),
    "its image is not there and may not be pulled": (
        make("Pending", waiting("ErrImageNeverPull"), age=301), F, "ErrImageNeverPull", None, FAIL,
    ),
    "its image has no name": (make("Pending", waiting("InvalidImageName")), F, "InvalidImageName", None, FAIL),
    "an init container's image cannot be pulled": (
        make("Pending", waiting("PodInitializing"), inits=(waiting("ErrImagePull"),), age=301),
        F, "ImagePullBackOff", None, FAIL,
    ),
    "one of two images cannot be pulled": (
        make("Pending", running(), waiting("ImagePullBackOff"), age=301), F, "ImagePullBackOff", None, FAIL,
    ),
    "its configuration is wrong": (
        make("Pending", waiting("CreateContainerConfigError")), W, "CreateContainerConfigError", None, None,
    ),
    "its configuration is wrong for too long": (
        make("Pending", waiting("CreateContainerConfigError"), age=301), F, "CreateContainerConfigError", None, FAIL,
    ),
    "its container cannot be created": (
        make("Pending", waiting("CreateContainerError"), age=301), F, "CreateContainerError", None, FAIL,
    ),
    "its container cannot be run": (
        make("Pending", waiting("RunContainerError"), age=301), F, "RunContainerError", None, FAIL,
    ),
    "an init container cannot be created": (
        make("Pending", waiting("PodInitializing"), inits=(waiting("CreateContainerError"),), age=301),
        F, "CreateContainerError", None, FAIL,
    ),
    "an init container runs": (make("Pending", waiting("PodInitializing"), inits=(running(),)), R, "", None, None),
    "it runs": (make("Running", running()), R, "", None, None),
    "one of two containers is done": (make("Running", ended(0), running()), R, "", None, None),
    "one of two containers failed": (make("Running", ended(1), running()), R, "", None, None),
    "it succeeded": (make("Succeeded", ended(0)), S, "", 0, DONE),
    "it succeeded, and says nothing more": (make("Succeeded"), S, "", 0, DONE),
    "it failed": (make("Failed", ended(3)), F, "Error", 3, ERROR),
    "the first failed container decides": (make("Failed", ended(0), ended(5), ended(6)), F, "Error", 5, ERROR),
    "it had too little memory": (make("Failed", ended(137, "OOMKilled")), F, "OOMKilled", 137, ERROR),
    "its command is not there": (
        make("Failed", ended(128, "StartError", 'exec: "x": no such file', startedAt="1970-01-01T00:00:00Z")),
        F, "StartError", 127, FAIL,
    ),
    "its command may not be executed": (
        make("Failed", ended(128, "ContainerCannotRun", "exec: Permission denied")), F, "StartError", 126, FAIL,
    ),
    "an init container failed": (
        make("Failed", waiting("PodInitializing"), inits=(ended(4),)), F, "Init:Error", 4, ERROR,
    ),
    "an init container had too little memory": (
        make("Failed", waiting("PodInitializing"), inits=(ended(137, "OOMKilled"),)), F, "Init:OOMKilled", 137, ERROR,
    ),
    "nobody says why it failed": (make("Failed"), F, "PodFailed", None, FAIL),
    "it was evicted": (make("Failed", reason="Evicted", message="The node was low on memory."), F, "Evicted", None, FAIL),
    "it was evicted while it ran": (make("Failed", ended(137), reason="Evicted"), F, "Evicted", 137, ERROR),
    "its own deadline passed": (make("Failed", ended(143), reason="DeadlineExceeded"), F, "DeadlineExceeded", 143, ERROR),
    "its node shut down": (make("Failed", ended(143), reason="Terminated"), F, "Terminated", 143, ERROR),
    "its node had no room after all": (make("Failed", reason="OutOfcpu"), F, "OutOfcpu", None, FAIL),
    "its node was another than it wished for": (make("Failed", reason="NodeAffinity"), F, "NodeAffinity", None, FAIL),
    "its node was shutting down": (make("Failed", reason="NodeShutdown"), F, "NodeShutdown", None, FAIL),
    "its node's devices were unavailable": (
        make("Failed", reason="UnexpectedAdmissionError", message="no healthy devices"),
        F, "UnexpectedAdmissionError", None, FAIL,
    ),
    "its node was lost": (make("Failed", running(), reason="NodeLost"), F, "NodeLost", None, ERROR),
    "its node is gone, and the garbage collector saw it": (
        make("Failed", running(), **condition("DisruptionTarget", "True", reason="DeletionByPodGC")),
        F, "NodeLost", None, ERROR,
    ),
    "its node needed room": (
        make("Failed", ended(137), **condition("DisruptionTarget", "True", reason="TerminationByKubelet")),
        F, "Evicted", 137, ERROR,
    ),
    "it was to be disrupted, and succeeded": (
        make("Succeeded", ended(0), **condition("DisruptionTarget", "True", reason="PreemptionByScheduler")), S, "", 0, DONE,
    ),
    "it is about to be disrupted": (
        make("Running", running(), **condition("DisruptionTarget", "True", reason="PreemptionByScheduler")), R, "", None, None,
    ),
    "it made room for a more important pod": (
        make("Failed", ended(137), **condition("DisruptionTarget", "True", reason="PreemptionByScheduler")),
        F, "Preempted", 137, ERROR,
    ),
    "its node's taint drove it out": (
        make("Failed", ended(137), **condition("DisruptionTarget", "True", reason="DeletionByTaintManager")),
        F, "NodeLost", 137, ERROR,
    ),
    "the API drove it out": (
        make("Failed", ended(143), deleted=5, **condition("DisruptionTarget", "True", reason="EvictionByEvictionAPI")),
        F, "Evicted", 143, ERROR,
    ),
    "somebody deletes it": (make("Running", running(), deleted=20), R, "Terminating", None, None),
    "somebody deletes it while it waits": (make("Pending", deleted=20), W, "Terminating", None, None),
    "somebody deleted it": (make("Failed", ended(143, finished=-5), deleted=20), F, "PodDeleted", 143, ERROR),
    "it failed and was deleted after that": (make("Failed", ended(3, finished=-20), deleted=20), F, "Error", 3, ERROR),
    "it succeeded and was deleted": (make("Succeeded", ended(0), deleted=20), S, "", 0, DONE),
    "its node does not let go of it": (
        make("Running", running(), deleted=-31), F, "StuckTerminating", None, ERROR,
    ),
    "its node is gone, and it was given up": (
        make("Running", running(), deleted=-31, reason="NodeLost"), F, "NodeLost", None, ERROR,
    ),
    "its node is not ready, and it was given up": (
        make("Running", running(), deleted=-31, **condition("Ready", "False")), F, "NodeLost", None, ERROR,
    ),
    "its node is unknown": (make("Unknown", running()), R, "NodeLost", None, None),
    "it was stopped": (
        make("Failed", ended(7), reason="DeadlineExceeded", annotations=ending("Stopped", -20)), STOPPED, "Stopped", 7, None,
    ),
    "it was stopped and took it well": (
        make("Failed", ended(0), reason="DeadlineExceeded", annotations=ending("Stopped", -20)), STOPPED, "Stopped", 0, None,
    ),
    "it had succeeded before it was stopped": (
        make("Failed", ended(0), reason="DeadlineExceeded", annotations=ending("Stopped", -5)), S, "", 0, DONE,
    ),
    "it is being stopped": (make("Running", running(), annotations=ending("Stopped", -20)), R, "Stopped", None, None),
    "its containers still run though an old kubelet says that it ended": (
        make("Failed", running(), reason="DeadlineExceeded", annotations=ending("Stopped", -20)), R, "Stopped", None, None,
    ),
    "an old kubelet does not say how its containers ended": (
        make("Failed", running(), reason="DeadlineExceeded", annotations=ending("Stopped", -40)), STOPPED, "Stopped", None, None,
    ),
    "its node does not stop it": (
        make("Running", running(), annotations=ending("Stopped", -61)), STOPPED, "Stopped", None, None,
    ),
    "the TaskSet's deadline passed": (
        make("Failed", ended(143), reason="DeadlineExceeded", annotations=ending("DeadlineExceeded", -20)),
        F, "DeadlineExceeded", 143, ERROR,
    ),
    "its sidecar runs on": (make("Running", ended(0), running(), annotations=SIDECAR), R, "SidecarsEnding", None, None),
    "its sidecar was ended": (
        make("Failed", ended(0), ended(143), reason="DeadlineExceeded", annotations=ending("SidecarsEnding", -9, **SIDECAR)),
        S, "", 0, DONE,
    ),
    "its sidecar cannot be ended": (
        make("Running", ended(0), running(), annotations=ending("SidecarsEnding", -61, **SIDECAR)), S, "", 0, DONE,
    ),
    "it failed beside its sidecar": (
        make("Failed", ended(2), ended(143), annotations=ending("SidecarsEnding", -9, **SIDECAR)), F, "Error", 2, ERROR,
    ),
    "its sidecar failed": (make("Failed", ended(0), ended(1), annotations=SIDECAR), S, "", 0, DONE),
    "its native sidecar runs beside it": (
        make("Running", running(), inits=(running(),), init_fields={"restartPolicy": "Always"}), R, "", None, None,
    ),
    "its native sidecar was ended": (
        make("Succeeded", ended(0), inits=(ended(137),), init_fields={"restartPolicy": "Always"}), S, "", 0, DONE,
    ),
    "its native sidecar fails again and again beside it": (
        make(
            "Running", running(), inits=(waiting("CrashLoopBackOff", restartCount=9, **CRASHED),),
            init_fields={"restartPolicy": "Always"},
        ),
        R, "", None, None,
    ),
    "its native sidecar fails again and again before it": (
        make(
            "Pending", waiting("PodInitializing"), inits=(waiting("CrashLoopBackOff", restartCount=6, **CRASHED),),
            init_fields={"restartPolicy": "Always"},
        ),
        F, "CrashLoopBackOff", 9, FAIL,
    ),
    "its native sidecar's image cannot be pulled": (
        make(
            "Pending", waiting("PodInitializing"), inits=(waiting("ImagePullBackOff"),),
            init_fields={"restartPolicy": "Always"}, age=301,
        ),
        F, "ImagePullBackOff", None, FAIL,
    ),
    "its native sidecar failed and it succeeded": (
        make("Succeeded", ended(0), inits=(ended(1),), init_fields={"restartPolicy": "Always"}), S, "", 0, DONE,
    ),
    "its sidecar's image cannot be pulled": (
        make("Pending", running(), waiting("ImagePullBackOff"), annotations=SIDECAR, age=400), R, "", None, None,
    ),
    "it is started again after a failure": (
        make("Running", {**running(), "restartCount": 1, **CRASHED}, spec=ON_FAILURE), R, "", None, None,
    ),
    "it failed and will be started again": (make("Running", ended(1), spec=ON_FAILURE), R, "", None, None),
    "it fails again and again": (
        make("Running", waiting("CrashLoopBackOff", restartCount=5, **CRASHED), spec=ON_FAILURE),
        R, "CrashLoopBackOff", None, None,
    ),
    "it failed too often": (
        make("Running", waiting("CrashLoopBackOff", restartCount=6, **CRASHED), spec=ON_FAILURE),
        F, "CrashLoopBackOff", 9, FAIL,
    ),
    "it succeeded in the end": (
        make("Succeeded", {**ended(0), "restartCount": 2, **CRASHED}, spec=ON_FAILURE), S, "", 0, DONE,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[name.replace(" ", "_") for name in CASES])
def test_a_pod_is_judged_as_the_table_says(case: str) -> None:
    pod, state, reason, code, result = CASES[case]
    judgement = judge(pod, NOW, LIMITS)
    report = judgement.report
    assert (report.state, report.reason, report.exit_code, judgement.result) == (state, reason, code, result)
    assert (report.role, report.index, report.attempt) == ("worker", 2, 1)
    assert (report.finished_at is not None) == state.ended


def test_every_rule_of_the_table_decides_some_case() -> None:
    decided = set()
    for pod, *_ in CASES.values():
        judge(pod, NOW, LIMITS)
        decided.add(next(rule.when for rule in RULES if rule.find(PodView(pod, NOW), LIMITS) is not None))
    assert decided == {rule.when for rule in RULES}


@pytest.mark.parametrize(
    ("case", "end"),
    [
        ("its image has no name", True),
        ("its image cannot be pulled", False),
        ("its image cannot be pulled for too long", True),
        ("no node was free for too long", True),
        ("its sidecar runs on", True),
        ("it failed too often", True),
        ("its node does not let go of it", True),
        ("its node does not stop it", True),
        ("it failed", False),
        ("it runs", False),
    ],
)
def test_a_pod_that_runs_on_after_a_verdict_has_to_be_ended(case: str, end: bool) -> None:
    assert judge(CASES[case][0], NOW, LIMITS).end is end


@given(
    phase=st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "Unknown"]),
    states=st.lists(
        st.sampled_from(
            [{}, running(), ended(0), ended(1), ended(137, "OOMKilled"), waiting("X"), waiting("ErrImagePull")]
        ),
        max_size=3,
    ),
    inits=st.lists(st.sampled_from([{}, running(), ended(0), ended(1)]), max_size=2),
    node=st.sampled_from(["", "node"]),
    age=st.floats(0, 10**6),
    deleted=st.none() | st.floats(-100, 100),
    policy=st.sampled_from(["Never", "OnFailure"]),
)
def test_every_pod_is_judged(
    phase: str, states: Any, inits: Any, node: str, age: float, deleted: float | None, policy: str
) -> None:
    pod = make(phase, *states, inits=tuple(inits), node=node, age=age, deleted=deleted, spec={"restartPolicy": policy})
    judgement = judge(pod, NOW, LIMITS)
    assert (judgement.result is not None) == (judgement.report.state in (S, F))
    if phase in ("Succeeded", "Failed"):
        assert judgement.report.state.ended


def test_diagnostics_are_the_last_2_KiB_of_what_the_container_left() -> None:
    report = judge(make("Failed", ended(1, message="ä" * 2000)), NOW, LIMITS).report
    assert report.diagnostics == "ä" * 1024


def test_times_are_of_the_containers() -> None:
    report = judge(make("Failed", ended(0, finished=-20), ended(1, finished=-10)), NOW, LIMITS).report
    assert report.started_at == NOW - timedelta(seconds=50)
    assert report.finished_at == NOW - timedelta(seconds=10)


def test_results_are_counted() -> None:
    judged = [judge(CASES[name][0], NOW, LIMITS) for name in ("it failed", "it succeeded", "it runs", "it was stopped")]
    assert count_results(judged) == {"task_error": 1, "task_finished": 1}


def test_the_documentation_shows_the_table() -> None:
    page = Path(__file__).parents[4] / "docs/kubernetes.md"
    rows = [
        f"| {rule.when} | {rule.state or 'waiting, or running once anything ran'} | {rule.reason or '–'} "
        f"| {rule.result or ('task_error, or task_fail when nothing ran' if rule.state is F else '–')} |"
        for rule in RULES
    ]
    assert "\n".join(rows) in page.read_text()


def test_restarts_are_those_of_the_containers_that_count() -> None:
    again = {**running(), "restartCount": 2, **CRASHED}
    pod = make("Running", again, {**running(), "restartCount": 7, **CRASHED}, spec=ON_FAILURE, annotations=SIDECAR)
    assert judge(pod, NOW, LIMITS).report.restarts == 2
