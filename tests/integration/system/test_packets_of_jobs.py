"""`GET /v1/job/packet`: the packet of each stage is the one that its plugin was sent, secrets masked."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner

from pipeline_cli import main
from pipeline_cli.exits import Exit
from tests.builders import container, role, taskset_of
from tests.installation import Installation
from tests.plugin_server import PluginServer

JOB = taskset_of(role("main", container("true", env=[{"name": "API_TOKEN", "value": "hidden"}])))


def decorate(packet: Any) -> Any:
    taskset = copy.deepcopy(packet["job"])
    taskset["spec"]["roles"][0]["template"]["metadata"] = {"labels": {"team": "vision"}}
    return taskset


def bind(packet: Any) -> Any:
    taskset = copy.deepcopy(packet["job"])
    taskset["spec"]["roles"][0]["template"]["spec"]["schedulerName"] = "default-scheduler"
    return taskset


ANSWERS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "translate": ("TemplateTranslator", lambda packet: JOB),
    "factors": ("FactorGenerator", lambda packet: {"topic": "priority", "advice": 7}),
    "gates": ("AccessGate", lambda packet: {"decision": "pass"}),
    "decorate": ("TemplateDecorator", decorate),
    "bind": ("SchedulerBinder", bind),
}


@pytest.mark.parametrize("kind", ["Script", "TaskSet"])
def test_each_packet_is_the_one_that_was_sent(
    kind: str, service: Installation, plugins: PluginServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    registered = [
        {"pluginType": plugin_type, "callAddress": plugins.plugin(f"/{stage}", answer)}
        for stage, (plugin_type, answer) in ANSWERS.items()
    ]
    service.post("/v1/features", {"name": "every-stage", "author": "ann", "plugins": registered})
    service.put("/v1/features/turn-on/every-stage")
    job = {"kind": "Script", "run": "true"} if kind == "Script" else JOB
    submission = {"userID": "ann", "jobName": "packets", "jobKind": kind, "header": {"team": "a"}, "job": job}
    job_id = service.post("/v1/job", submission)["jobID"]
    service.wait_state(job_id, "succeeded")

    for stage in ANSWERS:
        if kind == "TaskSet" and stage == "translate":
            assert plugins.calls_of("/translate") == []
            refused = service.ask("GET", f"/v1/job/packet/{job_id}?stage={stage}")
            assert refused.json()["code"] == "OPERATION_TARGET_NOT_FOUND"
            continue
        packet = service.get(f"/v1/job/packet/{job_id}?stage={stage}")
        (call,) = [one for one in plugins.calls_of(f"/{stage}") if one.body["header"]["jobID"] == job_id]
        assert packet == json.loads(json.dumps(call.body).replace("hidden", "***")), stage
        assert stage == "translate" or "hidden" in json.dumps(call.body)

    monkeypatch.setenv("PIPELINE_URL", service.url)
    monkeypatch.setenv("PIPELINE_TOKEN", service.password)
    shown = CliRunner().invoke(main, ["plugin", "packet", job_id, "gates"])
    assert shown.exit_code == Exit.OK
    assert json.loads(shown.output) == service.get(f"/v1/job/packet/{job_id}?stage=gates")
    assert CliRunner().invoke(main, ["plugin", "packet", job_id, "launch"]).exit_code == Exit.REFUSED
    assert CliRunner().invoke(main, ["plugin", "packet", "j0", "gates"]).exit_code == Exit.NOT_FOUND
