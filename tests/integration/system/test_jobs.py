"""Jobs from submission to end, through real processes and plugins."""

from __future__ import annotations

import copy
from typing import Any

from tests.builders import taskset
from tests.installation import Installation
from tests.plugin_server import PluginServer
from tests.waiting import wait_for


def translator(packet: dict[str, Any]) -> dict[str, Any]:
    return taskset(packet["job"]["script"], replicas=packet["job"].get("replicas", 1))


def decorator(packet: dict[str, Any]) -> dict[str, Any]:
    document = copy.deepcopy(packet["job"])
    container = document["spec"]["roles"][0]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "GREETING", "value": "hello"}]
    container["command"][-1] = "echo prepared; " + container["command"][-1]
    return document


def binder(packet: dict[str, Any]) -> dict[str, Any]:
    document = copy.deepcopy(packet["job"])
    weight = sum(int(factor["advice"]) for factor in packet["factors"].get("priority", []))
    template = document["spec"]["roles"][0]["template"]
    template.setdefault("metadata", {}).setdefault("labels", {})["priority"] = str(weight)
    template["spec"]["schedulerName"] = "volcano"
    return document


def test_a_job_passes_five_stages_and_runs(service: Installation, plugins: PluginServer) -> None:
    service.register(
        "echo",
        {"pluginType": "TemplateTranslator", "callAddress": plugins.plugin("/translate", translator)},
        {
            "pluginType": "FactorGenerator",
            "callAddress": plugins.plugin("/by-user", lambda packet: {"topic": "priority", "advice": "10"}),
        },
        {"pluginType": "AccessGate", "callAddress": plugins.plugin("/gate", lambda packet: {"decision": "pass"})},
        {"pluginType": "TemplateDecorator", "callAddress": plugins.plugin("/decorate", decorator)},
        {"pluginType": "SchedulerBinder", "callAddress": plugins.plugin("/bind", binder)},
        {"pluginType": "LifeHook", "callAddress": plugins.plugin("/hook", lambda event: "OK")},
    )
    service.register(
        "size",
        {
            "pluginType": "FactorGenerator",
            "callAddress": plugins.plugin("/by-size", lambda packet: [{"topic": "priority", "advice": "4"}]),
        },
    )
    script = "echo $GREETING from $TASKROLE_NAME-$TASKROLE_REPLICA_INDEX"
    job_id = service.submit({"kind": "Echo", "script": script, "replicas": 2})
    job = service.wait_state(job_id, "succeeded", "failed")
    assert (job["state"], job["exitCode"], job["stage"]) == ("succeeded", 0, "cluster"), job
    assert service.events(job_id) == ["waiting", "running", "succeeded"]

    trail = service.get(f"/v1/job/trail/{job_id}")
    assert [entry["stage"] for entry in trail] == ["translate", "factors", "factors", "gates", "decorate", "bind"]
    assert [entry["outcome"] for entry in trail] == ["answered"] * 6

    document = service.get(f"/v1/job/taskset/{job_id}")
    template = document["spec"]["roles"][0]["template"]
    assert document["metadata"]["name"] == job_id
    assert template["spec"]["schedulerName"] == "volcano"
    assert template["metadata"]["labels"]["priority"] == "14"
    assert service.get(f"/v1/job/config/{job_id}") == {"kind": "Echo", "script": script, "replicas": 2}

    (role,) = service.get(f"/v1/job/detail/{job_id}")["tasks"]
    assert [replica["exitCode"] for replica in role["replicas"]] == [0, 0]
    logs = service.ask("GET", f"/v1/job/logs/{job_id}").text
    assert "hello from worker-0" in logs
    assert "hello from worker-1" in logs
    assert logs.count("prepared") == 2

    events = wait_for(
        lambda: plugins.calls_of("/hook", job_id)[2:] and plugins.calls_of("/hook", job_id), "three events"
    )
    assert [call.body["current_state"] for call in events] == ["waiting", "running", "succeeded"]
    (gate,) = plugins.calls_of("/gate")
    assert gate.headers["Idempotency-Key"] == f"{job_id}:gates:AccessGate.echo.tests:1"
    assert [factor["advice"] for factor in gate.body["factors"]["priority"]] == ["10", "4"]
    assert gate.body["job"]["kind"] == "TaskSet"
    assert gate.body["header"]["jobKind"] == "Echo"


def test_a_job_that_nothing_translates_fails_and_says_why(service: Installation) -> None:
    job = service.wait_state(service.submit({"kind": "Nobody"}), "failed")
    assert "needs exactly one TemplateTranslator; none matches" in job["reason"]
    assert job["stage"] == "translate"


def test_a_replica_that_fails_fails_the_job_with_its_exit_code_and_the_end_of_its_log(service: Installation) -> None:
    job_id = service.submit(taskset("echo about to fail; exit 3"))
    job = service.wait_state(job_id, "failed")
    assert job["exitCode"] == 3
    assert "about to fail" in job["exitDiagnostics"]
    assert service.events(job_id) == ["waiting", "running", "failed"]


def test_a_gate_stops_a_job(service: Installation, plugins: PluginServer) -> None:
    gate = plugins.plugin("/gate", lambda packet: {"decision": "stop", "reason": "no budget"})
    service.register("budget", {"pluginType": "AccessGate", "callAddress": gate})
    job_id = service.submit(taskset())
    assert service.wait_state(job_id, "stopped")["reason"] == "no budget"
    assert service.events(job_id) == ["waiting", "stopped"]


def test_a_running_job_is_stopped_with_all_that_it_runs(service: Installation, tmp_path: Any) -> None:
    job_id = service.submit(taskset(f"echo $$$$ > {tmp_path}/pid; sleep 300"))
    service.wait_state(job_id, "running")
    pid = int(wait_for(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(), "the pid"))
    service.put(f"/v1/job/stop/{job_id}", {"reason": "enough"})
    job = service.job(job_id)
    assert (job["state"], job["reason"]) == ("stopped", "enough")
    wait_for(lambda: service.job(job_id)["cleanup"] == "done", "the cluster to be cleaned up")
    assert not _alive(pid)
    service.put(f"/v1/job/stop/{job_id}")
    assert service.ask("PUT", f"/v1/job/resume/{job_id}").status_code == 409


def _alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
