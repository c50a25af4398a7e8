"""The examples that the service's first clients and plugins were written from, as they stand there."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.builders import taskset
from tests.installation import Installation
from tests.plugin_server import PluginServer
from tests.waiting import wait_for

SELECTOR = {
    "conditions": [
        {"name": "type", "key": "type", "expect": "debug"},
        {"name": "user", "key": "user_role", "expect": "/admin|master/"},
    ],
    "expression": "type && !user",
}
FACTORS = [
    {"topic": "priority", "advice": "10", "reason": "user is admin"},
    {"topic": "priority", "advice": "4", "reason": "this is a small task"},
    {"topic": "priority", "advice": "1", "reason": "The history job is terrible"},
]
PLUGIN = {"key", "pluginType", "callAddress", "description", "jobSelector", "sequence"}
FEATURE = {"name", "author", "description", "enabled", "authorization", "jobSelector", "plugins"}
SUMMARY = {"jobID", "jobName", "jobKind", "userID", "state", "createdAt", "finishedAt"}
DETAIL = {"version", "job", "cluster", "tasks", "platformSpecificInfo"}
JOB = {
    "id", "name", "type", "state", "userID", "startAt", "finishedAt", "totalRetriedCount", "exitCode", "exitDiagnostics"
}  # fmt: skip
TASK = {
    "name", "image", "state", "command", "replicaAmount", "maxFailedTaskCount", "minSucceededTaskCount", "resource",
    "replicas",
}  # fmt: skip
REPLICA = {
    "index", "state", "retriedCount", "restartCount", "startAt", "finishedAt", "containerID", "containerHostIP", "exitCode",
    "exitDiagnostics",
}  # fmt: skip
PLATFORM = {
    "platform", "apiVersion", "namespace", "instanceUID", "configMapUID", "configMapName", "taskRuntimeInfo"
}  # fmt: skip
RUNTIME = {"name", "nodeSelector", "replicas", "volumeMounts"}
POD = {"index", "podIP", "podUID", "podName", "podHostIP", "podReason"}


def register(service: Installation, name: str, *plugins: dict[str, Any], **fields: Any) -> None:
    """The registration of the text: no `enabled`, no settings; then turned on."""
    body = {"name": name, "author": "tests", "description": "", "plugins": list(plugins), **fields}
    answer = service.ask("POST", "/v1/features", body)
    assert (answer.status_code, set(answer.json()), answer.json()["code"]) == (
        200,
        {"code", "msg"},
        "OPERATION_SUCCEEDED",
    )
    assert service.get(f"/v1/features/detail/{name}")["enabled"] is False
    assert service.put(f"/v1/features/turn-on/{name}") is None


def gate(plugins: PluginServer, path: str, **selector: Any) -> dict[str, Any]:
    address = plugins.plugin(path, lambda _: {"decision": "pass", "reason": "fine"})
    return {"pluginType": "AccessGate", "callAddress": address, "description": "", **selector}


@pytest.mark.parametrize(
    ("header", "matches"),
    [
        ({"type": "debug", "user_role": "guest"}, True),
        ({"type": "debug"}, True),
        ({"type": "debug", "user_role": "admin"}, False),
        ({"type": "debug", "user_role": "webmasters"}, False),
        ({"type": "release", "user_role": "guest"}, False),
        ({}, False),
    ],
)
def test_the_selector_of_the_text_chooses_jobs(
    service: Installation, plugins: PluginServer, header: dict[str, str], matches: bool
) -> None:
    register(service, "selected", gate(plugins, "/gate", jobSelector=SELECTOR))
    job_id = service.submit(taskset(), header=header)
    service.wait_state(job_id, "running", "succeeded")
    assert len(plugins.calls_of("/gate")) == int(matches)


def test_a_plugin_uses_and_overrides_its_features_conditions(service: Installation, plugins: PluginServer) -> None:
    overridden = {"conditions": [{"name": "type", "key": "type", "expect": "release"}]}
    hook = {"pluginType": "LifeHook", "callAddress": plugins.plugin("/hook", lambda _: "OK"), "description": ""}
    register(
        service,
        "merged",
        gate(plugins, "/own", jobSelector=overridden),
        hook,
        jobSelector=SELECTOR,
    )
    shown = {plugin["pluginType"]: plugin for plugin in service.get("/v1/features/detail/merged")["plugins"]}
    assert shown["AccessGate"]["effectiveJobSelector"]["expression"] == "type && !user"
    assert shown["LifeHook"]["effectiveJobSelector"]["conditions"] == SELECTOR["conditions"]
    job_id = service.submit(taskset(), header={"type": "release"})
    service.wait_state(job_id, "running", "succeeded")
    assert len(plugins.calls_of("/own")) == 1
    assert plugins.calls_of("/hook", job_id) == []


def test_a_job_of_the_text_goes_its_whole_way(service: Installation, plugins: PluginServer) -> None:
    for number, factor in enumerate(FACTORS):
        address = plugins.plugin(f"/factor{number}", lambda _, factor=factor: factor)
        register(
            service, f"priority{number}", {"pluginType": "FactorGenerator", "callAddress": address, "description": ""}
        )
    translator = plugins.plugin("/translate", lambda packet: taskset("echo done"))
    binder = plugins.plugin("/bind", lambda packet: packet["job"])
    hook = plugins.plugin("/hook", lambda _: "OK")
    register(
        service,
        "training",
        {"pluginType": "TemplateTranslator", "callAddress": translator, "description": ""},
        {"pluginType": "SchedulerBinder", "callAddress": binder, "description": ""},
        {"pluginType": "LifeHook", "callAddress": hook, "description": "", "jobSelector": {"states": ["*"]}},
    )
    sent = {
        "userID": "ada",
        "jobName": "mnist",
        "jobKind": "TFJob",
        "header": {"user_role": "guest", "nested": {"a": [1, None]}},
        "job": {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "spec": {"x": 1}},
    }
    answer = service.post("/v1/job", sent)
    assert set(answer) == {"jobID"}
    job_id = answer["jobID"]
    service.wait_state(job_id, "succeeded")

    (translated,) = plugins.calls_of("/translate")
    header = {**sent["header"], "userID": "ada", "jobName": "mnist", "jobKind": "TFJob", "jobID": job_id}
    assert translated.body == {"factors": {}, "header": header, "job": sent["job"]}
    (bound,) = plugins.calls_of("/bind")
    assert bound.body["factors"] == {"priority": FACTORS}
    assert bound.body["header"] == header
    assert (bound.body["job"]["kind"], bound.body["job"]["metadata"]["name"]) == ("TaskSet", job_id)

    wait_for(lambda: plugins.calls_of("/hook", job_id)[2:], "three events")
    events = [call.body for call in plugins.calls_of("/hook", job_id)]
    assert [(event["id"], event["current_state"]) for event in events][:2] == [(job_id, "waiting"), (job_id, "running")]
    assert set(events[0]) == {
        "id", "current_state", "currentState", "previousState", "userID", "jobName", "jobKind", "namespace", "reason",
        "sequence", "occurredAt", "currentTime",
    }  # fmt: skip

    assert service.get(f"/v1/job/config/{job_id}") == sent["job"]
    assert service.get(f"/v1/job/taskset/{job_id}")["kind"] == "TaskSet"
    (listed,) = service.get("/v1/job/list?userID=ada&kind=TFJob&state=succeeded&order=desc&pageNumber=1&pageSize=1")
    assert set(listed) >= SUMMARY
    assert listed["jobID"] == job_id
    assert service.get("/v1/job/count?userID=ada&kind=TFJob&startAt=0&endAt=4102444800")["count"] >= 1

    detail = service.get(f"/v1/job/detail/{job_id}")
    assert set(detail) == DETAIL
    assert detail["version"] == "v1"
    assert set(detail["job"]) - JOB == {
        "stage", "reason", "createdAt", "suspendedBy", "suspendedAt", "retryOf", "runID", "cleanup", "traceID"
    }  # fmt: skip
    assert set(detail["job"]) >= JOB
    assert (detail["job"]["id"], detail["job"]["type"], detail["job"]["exitCode"]) == (job_id, "TFJob", 0)
    assert set(detail["cluster"]) == {"identity"}
    (task,) = detail["tasks"]
    assert set(task) == TASK
    assert (task["command"], set(task["resource"])) == (["sh", "-c", "echo done"], {"requests", "limits"})
    (replica,) = task["replicas"]
    assert set(replica) == REPLICA
    assert (replica["index"], replica["exitCode"], replica["retriedCount"]) == (0, 0, 0)
    assert set(detail["platformSpecificInfo"]) >= PLATFORM
    (runtime,) = detail["platformSpecificInfo"]["taskRuntimeInfo"]
    assert set(runtime) == RUNTIME
    assert set(runtime["replicas"][0]) == POD


def test_a_call_says_who_calls_and_about_what(service: Installation, plugins: PluginServer) -> None:
    secret = "whsec_" + base64.b64encode(b"s" * 32).decode()
    hook = {"pluginType": "LifeHook", "callAddress": plugins.plugin("/hook", lambda _: "OK"), "description": ""}
    fields = {"authorization": "Bearer of the plugin", "signingSecret": secret}
    register(service, "signed", gate(plugins, "/gate"), hook, **fields)
    body = {
        "userID": "ada",
        "jobName": "n",
        "jobKind": "TaskSet",
        "header": {"userID": "eve", "jobID": "j0", "jobName": 1, "jobKind": None},
        "job": taskset(),
    }
    answer = service.ask("POST", "/v1/job", body, **{"X-Request-ID": "request-of-ada"})
    assert answer.headers["X-Request-ID"] == "request-of-ada"
    job_id = answer.json()["payload"]["jobID"]
    service.wait_state(job_id, "succeeded")

    (called,) = plugins.calls_of("/gate")
    assert called.body["header"] == {"userID": "ada", "jobName": "n", "jobKind": "TaskSet", "jobID": job_id}
    assert called.headers["Idempotency-Key"] == f"{job_id}:gates:AccessGate.signed.tests:1"
    assert called.headers["X-Job-ID"] == job_id
    assert called.headers["Content-Type"] == "application/json"
    events = wait_for(
        lambda: plugins.calls_of("/hook", job_id)[2:] and plugins.calls_of("/hook", job_id), "three events"
    )
    for call in (called, *events):
        assert call.headers["Authorization"] == "Bearer of the plugin"
        assert call.headers["X-Request-ID"] == "request-of-ada"
        assert {"webhook-id", "webhook-timestamp", "webhook-signature"} <= {name.lower() for name in call.headers}
    assert len({call.headers["webhook-id"] for call in events}) == len(events)
    logs = "".join(service.log(name) for name in service.services if name.startswith("stages"))
    assert "request-of-ada" in logs


def test_features_and_plugins_have_the_fields_of_the_text(service: Installation, plugins: PluginServer) -> None:
    register(service, "quota", gate(plugins, "/quota"))
    register(service, "budget", gate(plugins, "/budget"))
    (budget, quota) = service.get("/v1/features/list/tests")
    assert (budget["name"], quota["name"]) == ("budget", "quota")
    assert set(quota) - FEATURE == {"owner", "signingSecret", "mode", "createdAt", "updatedAt"}
    assert set(quota) >= FEATURE
    plugin = service.get("/v1/plugins/detail/AccessGate.quota.tests")
    assert set(plugin) >= PLUGIN
    assert [found["key"] for found in service.get("/v1/plugins/list/AccessGate")] == [
        "AccessGate.quota.tests",
        "AccessGate.budget.tests",
    ]
    keys = {"beforeKey": "AccessGate.budget.tests", "afterKey": "AccessGate.quota.tests", "pluginType": "AccessGate"}
    assert service.put("/v1/plugins/sequence", keys) is None
    assert [found["sequence"] for found in service.get("/v1/plugins/list/AccessGate")] == [1, 2]
    assert service.get("/v1/plugins/list/AccessGate")[0]["key"] == "AccessGate.budget.tests"


def test_stop_and_resume_take_the_body_of_the_text(service: Installation, plugins: PluginServer) -> None:
    decisions = iter(["suspend", "suspend"])
    address = plugins.plugin("/gate", lambda _: {"decision": next(decisions), "reason": "not now"})
    register(service, "parking", {"pluginType": "AccessGate", "callAddress": address, "description": ""})
    first, second = service.submit(taskset()), service.submit(taskset())
    for job_id in (first, second):
        assert service.wait_state(job_id, "suspended")["suspendedBy"] == "AccessGate.parking.tests"
    assert service.put(f"/v1/job/resume/{first}", {"jobID": first, "reason": "granted"}) is None
    service.wait_state(first, "running", "succeeded")
    assert service.put(f"/v1/job/stop/{second}", {"jobID": second, "reason": "no more"}) is None
    assert service.job(second)["state"] == "stopped"
    assert service.job(second)["reason"] == "no more"
