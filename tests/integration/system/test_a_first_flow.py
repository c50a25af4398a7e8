"""What the walk through flows says, done over the API with the example flow and the gate that asks for consent."""

from __future__ import annotations

import json
import sys
from typing import Any

from tests.installation import Installation
from tests.integration.system.gates import GATES, Start, register
from tests.pages import ROOT
from tests.waiting import wait_for

DOCUMENT = json.loads((ROOT / "examples" / "flows" / "daily-report.json").read_text())
FLOW = "/v1/flows/daily-report"
SPAN = {"from": "2026-03-01 00:00:00", "to": "2026-03-03 23:59:59"}


def tasks(service: Installation, run_id: str) -> dict[str, Any]:
    return {task["name"]: task for task in service.get(f"/v1/runs/{run_id}")["tasks"]}


def ended(service: Installation, run_id: str) -> dict[str, Any]:
    found: dict[str, Any] = wait_for(
        lambda: run if (run := service.get(f"/v1/runs/{run_id}"))["finishedAt"] else None, "the run to end"
    )
    return found


def test_the_example_flow_waits_for_consent_runs_is_backfilled_and_goes_out_as_it_came_in(
    service: Installation, start: Start
) -> None:
    gate = register(service, "approval.yaml", start(sys.executable, GATES / "approval.py"))
    assert service.post("/v1/flows/import", DOCUMENT) == {"flows": ["daily-report"], "paused": ["daily-report"]}
    assert service.get(f"{FLOW}/schedule")["paused"]

    run_id = service.post(f"{FLOW}/run", {"variables": {"ROWS": "24"}})["runID"]
    wait_for(lambda: tasks(service, run_id)["fit"]["state"] == "suspended", "the task to be suspended")
    fit = tasks(service, run_id)["fit"]
    assert fit["reason"] == "fit of daily-report needs somebody's consent"
    assert service.job(fit["jobID"])["suspendedBy"] == gate
    service.put(f"/v1/job/resume/{fit['jobID']}")
    run = ended(service, run_id)
    assert run["state"] == "succeeded", run
    assert tasks(service, run_id)["fetch"]["output"] == "24"

    logs = service.ask("GET", f"/v1/runs/{run_id}/logs?task=report").text
    assert "24 sales, slope" in logs
    kinds = [metric["metric_type"] for metric in service.get(f"/v1/runs/{run_id}/metrics")["fit"]]
    assert kinds == ["text", "echart"]

    service.put(f"{FLOW}/schedule", {"paused": False})
    points = ["2026-03-01T01:00:00Z", "2026-03-02T01:00:00Z", "2026-03-03T01:00:00Z"]
    assert service.post(f"{FLOW}/backfill", {**SPAN, "dryRun": True})["points"] == points
    backfill_id = service.post(f"{FLOW}/backfill", SPAN)["backfillID"]
    backfill = wait_for(
        lambda: found if (found := service.get(f"/v1/backfills/{backfill_id}"))["state"] != "running" else None,
        "the backfill to end",
    )
    assert [point["state"] for point in backfill["points"]] == ["succeeded"] * 3

    assert service.get("/v1/flows/export?names=daily-report") == DOCUMENT
    service.ask("DELETE", FLOW)


def test_a_running_task_reports_its_usage(service: Installation) -> None:
    service.post("/v1/flows", {
        "pipeline": {"name": "busy"},
        "tasks": [{"name": "one", "job_templete": "customize",
                   "args": {"images": "x", "command": "python3 -c 'while True: pass'"}}],
    })  # fmt: skip
    run_id = service.post("/v1/flows/busy/run", {})["runID"]
    used = wait_for(lambda: tasks(service, run_id)["one"]["usage"], "the usage")
    assert used.keys() == {"cpuCores", "memoryBytes"}
    assert used["memoryBytes"] > 0
    service.put(f"/v1/runs/{run_id}/stop")
