"""Jobs with something to see: one that plugins have decorated, one that a gate has suspended, one whose decorators contradict
each other, one that waits for a plugin that is away, one of a hundred replicas; one whose texts try to be HTML; and flows with
their runs."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.builders import plugin, taskset
from tests.installation import Installation
from tests.plugin_server import PluginServer
from tests.waiting import wait_for

FAILED_BECAUSE = "ValueError: column price has 3 empty values"
GATE_REASON = "The project vision has used 118 of 120 GPU hours; an owner of the budget may let it pass."
HTML = (
    "<img src=x onerror=alert(1)>",
    "<script>alert(1)</script>",
    '"><svg onload=alert(1)>',
    "javascript:alert(1)",
    "{{constructor.constructor('alert(1)')()}}",
    "'-alert(1)-'",
)
TRAINING = """
for epoch in 1 2 3 4 5; do
  printf '\\033[32mepoch %s\\033[0m loss \\033[1m0.%s\\033[0m\\n' $epoch $((9 - epoch))
done
"""


@dataclass(frozen=True)
class Scenario:
    """The IDs of the jobs."""

    decorated: str
    suspended: str
    conflicting: str
    waiting: str
    hundred: str


@dataclass(frozen=True)
class Flows:
    """The IDs of runs: one that failed, and one of a thousand tasks of which the first is running."""

    failed: str
    thousand: str


def make(service: Installation, plugins: PluginServer) -> Scenario:
    """Register the plugins, submit the jobs and wait until each is where it stays."""
    service.register(
        "quota", _of(plugins, "AccessGate", "/quota", lambda body: {"decision": "pass", "reason": "8 of 64 CPUs"})
    )
    gate = _of(plugins, "AccessGate", "/budget", lambda body: {"decision": "suspend", "reason": GATE_REASON})
    service.register("budget", {**gate, "resume": "approver"}, jobSelector=selector("budget"))
    service.register(
        "datasets",
        _of(plugins, "TemplateDecorator", "/datasets", environment("DATASET", "/data")),
        jobSelector=selector("data"),
    )
    service.register(
        "proxies",
        _of(plugins, "TemplateDecorator", "/proxies", environment("HTTP_PROXY", "http://proxy:3128")),
        jobSelector=selector("data"),
    )
    for side in ("east", "west"):
        decorator = _of(plugins, "TemplateDecorator", f"/{side}", environment("ZONE", side))
        service.register(side, decorator, jobSelector=selector("zones"))
    service.register(
        "licences",
        plugin("AccessGate", "http://127.0.0.1:9/away", patienceSeconds=86400),
        jobSelector=selector("licence"),
    )
    hook = {"conditions": [], "expression": "jobID", "states": ["*"]}
    service.register("notices", {**_of(plugins, "LifeHook", "/notices", lambda body: "OK"), "jobSelector": hook})
    failing = 'echo "step 1 of replica $TASKROLE_REPLICA_INDEX"; sleep 0.2; [ "$TASKROLE_REPLICA_INDEX" != 37 ]'
    scenario = Scenario(
        decorated=service.submit(taskset(TRAINING, replicas=2), name="resnet50-imagenet", header={"data": "yes"}),
        suspended=service.submit(taskset(), name="llm-finetune-70b", header={"budget": "yes"}),
        conflicting=service.submit(taskset(), name="speech-nightly", header={"zones": "yes"}),
        waiting=service.submit(taskset(), name="matlab-sweep", header={"licence": "yes"}),
        hundred=service.submit(taskset(failing, replicas=100), name="sweep-100"),
    )
    service.wait_state(scenario.decorated, "succeeded")
    service.wait_state(scenario.suspended, "suspended")
    service.wait_state(scenario.conflicting, "failed")
    service.wait_state(scenario.hundred, "failed")
    return scenario


def make_html(service: Installation, plugins: PluginServer) -> str:
    """A job whose name, reason and script try to be HTML; suspended."""
    gate = _of(plugins, "AccessGate", "/html", lambda body: {"decision": "suspend", "reason": "".join(HTML)})
    service.register("html", gate, jobSelector=selector("html"))
    job = service.submit(taskset(f"echo '{HTML[0]}'"), name=HTML[0], header={"html": "yes"})
    service.wait_state(job, "suspended")
    return job


def make_flows(service: Installation) -> Flows:
    """Import the flows, and run two of them until each is where it stays."""
    failing = f"echo 'reading 3,120 rows of prices.csv'; echo '{FAILED_BECAUSE}'; exit 3"
    import_flow(
        service,
        "sales",
        {"load": ("echo", []), "clean": (failing, ["load"]), "train": ("echo", ["clean"]), "count": ("echo", ["load"])},
        failFast=False,
    )
    wide = {f"part-{number}": ("echo", ["prepare"]) for number in range(998)}
    import_flow(service, "wide", {"prepare": ("sleep 86400", []), **wide, "publish": ("echo", [*wide])})
    import_flow(
        service,
        "daily",
        {"load": ("echo", [])},
        schedule_type="crontab",
        cron_time="0 2 * * *",
        timezone="Europe/Berlin",
        cronjob_start_time="2026-03-01 00:00:00",
    )
    found = Flows(
        failed=service.post("/v1/flows/sales/run", {})["runID"],
        thousand=service.post("/v1/flows/wide/run", {})["runID"],
    )
    wait_for(lambda: service.get(f"/v1/runs/{found.failed}")["state"] == "failed", "the run that fails")
    wait_for(lambda: service.get(f"/v1/runs/{found.thousand}")["tasks"][0]["state"] == "running", "the long task")
    return found


def import_flow(service: Installation, name: str, tasks: dict[str, tuple[str, list[str]]], **fields: Any) -> None:
    """Import a flow of tasks, each with its script and the tasks that it waits for."""
    entry = {
        "pipeline": {"name": name, "dag_json": {key: {"upstream": up} for key, (_, up) in tasks.items()}, **fields},
        "tasks": [
            {"name": key, "job_templete": "customize", "args": {"images": "busybox", "command": script}}
            for key, (script, _) in tasks.items()
        ],
    }
    service.post("/v1/flows/import", {name: entry})


def stop_all(service: Installation) -> None:
    """Stop all jobs that have not ended, so that no process of theirs is left."""
    for job in service.get("/v1/job/list?state=waiting,running,suspended&pageSize=500"):
        service.ask("PUT", f"/v1/job/stop/{job['jobID']}")
        service.wait_state(job["jobID"], "stopped", "succeeded", "failed")


def _of(plugins: PluginServer, type: str, path: str, function: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    return plugin(type, plugins.plugin(path, function))


def selector(key: str) -> dict[str, Any]:
    """It matches jobs whose header has `yes` under this key."""
    return {"conditions": [{"name": "asked", "key": key, "expect": "yes"}], "expression": "asked"}


def environment(name: str, value: str) -> Callable[[dict[str, Any]], Any]:
    """A decorator that sets a variable in each first container."""

    def decorate(body: dict[str, Any]) -> dict[str, Any]:
        decorated: dict[str, Any] = copy.deepcopy(body["job"])
        for role in decorated["spec"]["roles"]:
            role["template"]["spec"]["containers"][0].setdefault("env", []).append({"name": name, "value": value})
        return decorated

    return decorate
