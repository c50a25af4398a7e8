"""Flows, templates and runs on the command line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

ENTRY: dict[str, Any] = {
    "pipeline": {"name": "Sales", "dag_json": {"load": {}, "report": {"upstream": ["load"]}}},
    "tasks": [{"job_templete": "logical", "name": "load"}, {"job_templete": "logical", "name": "report"}],
}
DOCUMENT = {"Sales": ENTRY}
TEXT = json.dumps(DOCUMENT, indent=2)


def task(name: str, state: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "state": state, "reason": "", "jobID": None, "attempt": 0, **fields}


def run(state: str, *tasks: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "id": "r01",
        "flow": "Sales",
        "trigger": "manual",
        "executionDate": "2026-03-01T00:00:00Z",
        "state": state,
        "reason": "",
        "blockedBy": None,
        "runner": "ada",
        "createdAt": "2026-03-01T00:00:00Z",
        "startAt": None,
        "finishedAt": None,
        "tasks": list(tasks),
        **fields,
    }


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "flows.json"
    path.write_text(TEXT)
    return str(path)


def test_a_document_is_imported_as_it_stands_in_the_file(stub, pipeline, file) -> None:
    stub.answer("POST", "/v1/flows/import", {"flows": ["Sales"]})
    result = pipeline("flow", "import", file)
    assert (result.exit_code, result.stdout) == (0, "Sales imported\n")
    assert stub.asked[0].body == DOCUMENT


def test_an_import_says_which_schedules_it_paused(stub, pipeline, file) -> None:
    stub.answer("POST", "/v1/flows/import", {"flows": ["Sales", "other"], "paused": ["other"]})
    assert pipeline("flow", "import", file).stdout == (
        "Sales imported\nother imported; its schedule is paused: pipeline flow resume other\n"
    )


def test_yaml_may_be_imported_too(stub, pipeline, tmp_path) -> None:
    path = tmp_path / "flows.yaml"
    path.write_text("Sales:\n  pipeline: {name: Sales}\n  tasks:\n  - {job_templete: logical, name: a, retry: 2}\n")
    stub.answer("POST", "/v1/flows/import", {"flows": ["Sales"]})
    assert json.loads(pipeline("flow", "import", str(path), "-o", "json").stdout) == {"flows": ["Sales"]}
    assert stub.asked[0].body["Sales"]["tasks"] == [{"job_templete": "logical", "name": "a", "retry": 2}]


def test_every_fault_of_a_refused_document_is_shown_with_its_path(stub, pipeline, file) -> None:
    errors = {
        "Sales.tasks[0].resource_gpu": ["(task load) must be a number"],
        "Sales.pipeline.timezone": ["is no zone"],
    }
    stub.answer(
        "POST", "/v1/flows/import", status=400, code="WRONG_PARAM", msg="Sales.tasks[0].resource_gpu: …", errors=errors
    )
    result = pipeline("flow", "import", file)
    assert result.exit_code == 3
    assert "Sales.tasks[0].resource_gpu: (task load) must be a number" in result.stderr
    assert "Sales.pipeline.timezone: is no zone" in result.stderr


@pytest.mark.parametrize("form", [(), ("--output", "json")])
def test_an_export_is_the_same_bytes_whatever_the_form(stub, pipeline, form) -> None:
    stub.answer("GET", "/v1/flows/export", DOCUMENT)
    result = pipeline("flow", "export", "Sales", "other", *form)
    assert (result.exit_code, result.stdout) == (0, TEXT)
    assert stub.asked[0].query == {"names": "Sales,other"}


def test_an_export_goes_to_a_file(stub, pipeline, tmp_path) -> None:
    stub.answer("GET", "/v1/flows/export", DOCUMENT)
    path = tmp_path / "out.json"
    result = pipeline("flow", "export", "-o", str(path))
    assert (result.exit_code, result.stdout, path.read_text()) == (0, "", TEXT)
    assert stub.asked[0].query == {}
    assert pipeline("flow", "export", "-o", str(tmp_path / "no" / "where")).exit_code == 2


def test_flows_are_listed_and_shown(stub, pipeline) -> None:
    flow = {
        "name": "Sales",
        "describe": "daily",
        "project": "public",
        "creator": "ada",
        "tasks": 2,
        "timezone": "UTC",
        "schedule": "@daily",
        "paused": False,
        "nextAt": "2026-03-01T00:00:00Z",
        "createdAt": None,
        "updatedAt": None,
    }
    stub.answer("GET", "/v1/flows", [flow, {**flow, "name": "other", "paused": True}])
    stub.answer("GET", "/v1/flows/Sales", ENTRY)
    lines = [line.split() for line in pipeline("flow", "list").stdout.splitlines()]
    assert lines[1:] == [
        ["Sales", "ada", "2", "@daily", "2026-03-01", "00:00:00Z", "daily"],
        ["other", "ada", "2", "@daily", "paused", "daily"],
    ]
    assert "name: Sales" in pipeline("flow", "show", "Sales").stdout
    assert json.loads(pipeline("flow", "show", "Sales", "-o", "json").stdout) == ENTRY


def test_a_flow_is_drawn(stub, pipeline, tmp_path) -> None:
    stub.answer("GET", "/v1/flows/sales", ENTRY)
    assert pipeline("flow", "graph", "sales").stdout.startswith("flowchart TD\n")
    assert '"load" -> "report";' in pipeline("flow", "graph", "sales", "--format", "dot").stdout
    shown = json.loads(pipeline("flow", "graph", "sales", "-o", "json").stdout)
    assert shown["format"] == "mermaid"
    picture = tmp_path / "flow.svg"
    assert pipeline("flow", "graph", "sales", "--format", "svg", "--file", str(picture)).exit_code == 0
    assert picture.read_text().startswith("<svg")


def test_a_flow_is_deleted(stub, pipeline) -> None:
    stub.answer("DELETE", "/v1/flows/Sales")
    assert pipeline("flow", "delete", "Sales").stdout == "Sales deleted\n"
    assert pipeline("flow", "delete", "ghost").exit_code == 4


def test_a_run_is_started_with_values(stub, pipeline) -> None:
    stub.answer("POST", "/v1/flows/Sales/run", {"runID": "r01"})
    result = pipeline("flow", "run", "Sales", "--set", "DAY=1=2", "--set", "A=", "--reason", "late")
    assert (result.exit_code, result.stdout) == (0, "r01\n")
    assert stub.asked[0].body == {"variables": {"DAY": "1=2", "A": ""}, "reason": "late"}


def test_a_task_runs_alone_or_as_a_debug_pod(stub, pipeline) -> None:
    stub.answer("POST", "/v1/flows/Sales/tasks/load/run", {"runID": "r01"})
    stub.answer("POST", "/v1/flows/Sales/tasks/load/debug", {"runID": "r02"})
    assert pipeline("flow", "run", "Sales", "--task", "load").stdout == "r01\n"
    assert pipeline("flow", "run", "Sales", "--task", "load", "--debug").stdout == "r02\n"
    assert pipeline("flow", "run", "Sales", "--debug").exit_code == 2


def test_watching_prints_each_change_once_and_ends_as_the_run_does(stub, pipeline) -> None:
    stub.answer("POST", "/v1/flows/Sales/run", {"runID": "r01"})
    for payload in (
        run("waiting", task("load", "waiting"), task("report", "waiting")),
        run("running", task("load", "running"), task("report", "waiting")),
        run("running", task("load", "succeeded"), task("report", "running")),
        run(
            "failed", task("load", "succeeded"), task("report", "failed", reason="exit code 3"), reason="report failed"
        ),
    ):
        stub.answer("GET", "/v1/runs/r01", payload)
    result = pipeline("flow", "run", "Sales", "--watch")
    assert result.exit_code == 1
    shown = [line.split() for line in result.stdout.splitlines()]
    timed = [words for words in shown if re.fullmatch(r"\d\d:\d\d:\d\dZ", words[0])]
    assert timed == shown[1:-1]
    assert [shown[0], *(words[1:] for words in timed), shown[-1]] == [
        *(["r01", "started"], ["waiting"], ["load", "waiting"], ["report", "waiting"]),
        *(["running"], ["load", "running"]),
        *(["load", "succeeded"], ["report", "running"]),
        *(["failed", "report", "failed"], ["report", "failed", "exit", "code", "3"]),
        ["r01", "failed:", "report", "failed"],
    ]


def test_a_run_that_succeeded_is_exit_code_0_and_its_json_is_alone_on_standard_output(stub, pipeline) -> None:
    done = run("succeeded", task("load", "succeeded"))
    stub.answer("GET", "/v1/runs/r01", done)
    result = pipeline("run", "r01", "--watch", "--output", "json")
    assert (result.exit_code, json.loads(result.stdout)) == (0, done)
    assert "succeeded" in result.stderr


def test_a_run_is_shown_with_its_tasks(stub, pipeline) -> None:
    stub.answer("GET", "/v1/runs/r01", run("blocked", task("load", "waiting"), blockedBy="r00"))
    result = pipeline("run", "r01")
    assert result.exit_code == 0
    assert ["blocked", "by", "r00"] in [line.split() for line in result.stdout.splitlines()]
    assert pipeline("run", "r99").exit_code == 4


@pytest.mark.parametrize(
    ("words", "path"), [(("flow", "runs", "Sales"), "/v1/flows/Sales/runs"), (("runs", "list"), "/v1/runs")]
)
def test_runs_are_listed_by_page(stub, pipeline, words, path) -> None:
    stub.answer("GET", path, [run("failed", reason="no")], headers={"X-Total-Count": "30"})
    result = pipeline(*words, "--state", "failed", "--trigger", "manual", "--page", "2", "--page-size", "1")
    assert stub.asked[0].query == {"state": "failed", "trigger": "manual", "pageNumber": "2", "pageSize": "1"}
    assert result.stdout.splitlines()[1].split()[:3] == ["r01", "Sales", "manual"]
    assert "30 runs" in result.stderr


@pytest.mark.parametrize(
    ("words", "method", "path", "body"),
    [
        (("stop", "r01", "--reason", "why"), "PUT", "/v1/runs/r01/stop", {"reason": "why"}),
        (("retry", "r01"), "POST", "/v1/runs/r01/retry", {}),
        (("dismiss", "r01"), "PUT", "/v1/runs/r01/dismiss", {}),
        (("mark", "r01", "load", "skipped"), "PUT", "/v1/runs/r01/tasks/load", {"mark": "skipped"}),
        (("delete", "r01"), "DELETE", "/v1/runs/r01", None),
    ],
)
def test_what_can_be_done_to_a_run(stub, pipeline, words, method, path, body) -> None:
    stub.answer(method, path)
    assert pipeline("runs", *words).exit_code == 0
    assert (stub.asked[0].method, stub.asked[0].path, stub.asked[0].body) == (method, path, body)
    answer = pipeline("runs", *words, "--output", "json")
    assert json.loads(answer.stdout)["code"] == "OPERATION_SUCCEEDED"


def test_logs_are_printed_as_they_come(stub, pipeline) -> None:
    stub.raw("GET", "/v1/runs/r01/logs", "load | é\n".encode(), 200, {"Content-Type": "text/plain"})
    result = pipeline("runs", "logs", "r01", "--task", "load", "--tail", "3", "--since", "0")
    assert (result.exit_code, result.stdout) == (0, "load | é\n")
    assert stub.asked[0].query == {"task": "load", "tail": "3", "since": "0"}
    assert pipeline("runs", "logs", "r01", "--output", "json").exit_code == 2


def test_metrics_are_shown(stub, pipeline) -> None:
    stub.answer("GET", "/v1/runs/r01/metrics", {"load": [{"metric_type": "text", "text": "12"}]})
    assert "metric_type: text" in pipeline("runs", "metrics", "r01").stdout


def test_templates_are_imported_listed_shown_and_deleted(stub, pipeline, tmp_path) -> None:
    template = {"job_template_name": "t", "image_name": "busybox", "job_template_describe": "does it"}
    path = tmp_path / "templates.json"
    path.write_text(json.dumps({"t": template}))
    stub.answer("POST", "/v1/templates", {"templates": ["t"]})
    stub.answer("GET", "/v1/templates", {"t": template})
    stub.answer("GET", "/v1/templates/t", template)
    stub.answer("DELETE", "/v1/templates/t", status=409, code="UNSUPPORTED_OPERATION", msg="a uses it")
    assert pipeline("template", "import", str(path)).stdout == "t imported\n"
    assert pipeline("template", "list").stdout.splitlines()[1].split() == ["t", "busybox", "does", "it"]
    assert json.loads(pipeline("template", "show", "t", "-o", "json").stdout) == template
    assert pipeline("template", "delete", "t").exit_code == 3


def test_completion_knows_the_commands_of_a_group(pipeline) -> None:
    result = pipeline(_PIPELINE_COMPLETE="bash_complete", COMP_WORDS="pipeline flow ex", COMP_CWORD="2")
    assert "export" in result.stdout
