"""Checks, layouts and grids of flows over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import func, insert, select

from pipeline_core.auth.privileges import Privilege
from pipeline_core.common.clock import now
from pipeline_core.common.ids import new_run_id
from pipeline_core.database import transaction
from pipeline_core.database.models import FlowRow, RunRow, TaskAttempt, TaskRunRow
from tests.builders import flow_entry
from tests.statements import counted_statements

DIAMOND = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}


def names(layout: Any) -> list[list[str]]:
    return [[node["name"] for node in layer] for layer in layout["layers"]]


def test_a_flow_that_is_right_is_checked_with_its_layout_and_not_stored(admin: Any) -> None:
    found = admin.payload("POST", "/v1/flows/check", json=flow_entry("Sales", DIAMOND))
    assert (found["valid"], found["errors"]) == (True, {})
    assert names(found["layout"]) == [["a"], ["b", "c"], ["d"]]
    assert sorted(found["layout"]["edges"]) == [["a", "b"], ["a", "c"], ["b", "d"], ["c", "d"]]
    assert admin.payload("GET", "/v1/flows") == []


def test_all_that_is_wrong_with_a_flow_is_found_as_creating_it_would_and_its_layout_is_known(admin: Any) -> None:
    entry = flow_entry("Sales", DIAMOND, project="nobody")
    entry["tasks"][1]["resource_gpu"] = "1.5"
    entry["tasks"][2]["job_template"] = "none"
    found = admin.payload("POST", "/v1/flows/check", json=entry)
    assert not found["valid"]
    assert found["errors"] == admin("POST", "/v1/flows", json=entry).json["errors"]
    assert {"pipeline.project", "tasks[1].resource_gpu"} <= {*found["errors"]}
    assert names(found["layout"]) == [["a"], ["b", "c"], ["d"]]


@pytest.mark.parametrize(
    "broken", [{"dag_json": {"a": {"upstream": ["b"]}, "b": {"upstream": ["a"]}}}, {"dag_json": []}]
)
def test_a_flow_whose_order_cannot_be_read_has_no_layout(admin: Any, broken: Any) -> None:
    entry = flow_entry("Sales", {"a": [], "b": []})
    entry["pipeline"] |= broken
    found = admin.payload("POST", "/v1/flows/check", json=entry)
    assert (found["valid"], found["layout"]) == (False, None)
    assert any(path.startswith("pipeline.dag_json") for path in found["errors"])


@pytest.mark.parametrize("body", [[], "text", 1])
def test_what_is_no_object_is_refused(admin: Any, body: Any) -> None:
    assert admin("POST", "/v1/flows/check", json=body).status_code == 400


@pytest.mark.parametrize("body", [{}, {"pipeline": {}}, {"pipeline": {}, "tasks": []}])
def test_what_is_no_flow_at_all_has_errors_too(admin: Any, body: Any) -> None:
    found = admin.payload("POST", "/v1/flows/check", json=body)
    assert (found["valid"], found["layout"]) == (False, None)
    assert found["errors"]


def test_a_flow_is_laid_out_in_groups_if_it_has_more_tasks_than_are_to_be_drawn(admin: Any) -> None:
    many = {f"train-{number}": ["load"] for number in range(20)}
    admin.payload("POST", "/v1/flows", json=flow_entry("Sales", {"load": [], **many, "end": [*many]}))
    whole = admin.payload("GET", "/v1/flows/sales/layout")
    assert [len(layer) for layer in whole["layers"]] == [1, 20, 1]
    grouped = admin.payload("GET", "/v1/flows/sales/layout?most=5")
    assert [len(layer) for layer in grouped["layers"]] == [1, 1, 1]
    (group,) = grouped["layers"][1]
    assert (group["label"], len(group["tasks"]), grouped["tasks"]) == ("train-… (20)", 20, 22)
    assert admin("GET", "/v1/flows/sales/layout?most=0").status_code == 400


def test_a_run_is_laid_out_as_the_flow_was_when_it_began(admin: Any, bearer: Callable[..., Any]) -> None:
    admin.payload("POST", "/v1/flows", json=flow_entry("Sales", DIAMOND))
    run_id = admin.payload("POST", "/v1/flows/sales/run")["runID"]
    alone = admin.payload("POST", "/v1/flows/sales/tasks/d/run")["runID"]
    admin.payload("PUT", "/v1/flows/Sales", json=flow_entry("Sales", {"other": []}))
    assert names(admin.payload("GET", f"/v1/runs/{run_id}/layout")) == [["a"], ["b", "c"], ["d"]]
    assert names(admin.payload("GET", f"/v1/runs/{alone}/layout")) == [["d"]]
    tasks = admin.payload("GET", f"/v1/runs/{run_id}")["tasks"]
    assert {task["name"]: sorted(task["upstream"]) for task in tasks} == DIAMOND
    stranger = bearer(Privilege.READ_JOB, own_only=True)
    for path in (f"/v1/runs/{run_id}/layout", "/v1/flows/sales/layout", "/v1/flows/sales/grid"):
        assert stranger("GET", path).status_code == 404, path


def test_a_task_of_a_run_has_all_its_attempts(admin: Any) -> None:
    admin.payload("POST", "/v1/flows", json=flow_entry("Sales", {"load": []}))
    run_id = admin.payload("POST", "/v1/flows/sales/run")["runID"]
    first, second = admin.submit(), admin.submit()
    admin.payload("PUT", f"/v1/job/stop/{first}", json={"reason": "wrong data"})
    with transaction() as session:
        row = {"run_id": run_id, "key": "load", "pending": False, "stop": False, "due_at": now()}
        jobs = {1: first, 2: second, 3: "j0gone", 4: None}
        session.execute(insert(TaskAttempt), [{**row, "attempt": n, "job_id": job_id} for n, job_id in jobs.items()])
    (task,) = admin.payload("GET", f"/v1/runs/{run_id}")["tasks"]
    shown = [(one["attempt"], one["jobID"], one["state"], one["reason"]) for one in task["attempts"]]
    assert shown == [
        (1, first, "stopped", "wrong data"),
        (2, second, "waiting", ""),
        (3, "j0gone", None, ""),
        (4, None, None, ""),
    ]


def test_a_grid_has_the_newest_runs_with_the_states_of_their_tasks(admin: Any) -> None:
    admin.payload("POST", "/v1/flows", json=flow_entry("Sales", DIAMOND))
    first = admin.payload("POST", "/v1/flows/sales/run")["runID"]
    alone = admin.payload("POST", "/v1/flows/sales/tasks/d/run")["runID"]
    admin.payload("PUT", f"/v1/runs/{first}/stop")
    grid = admin.payload("GET", "/v1/flows/sales/grid")
    assert (grid["tasks"], grid["taskCount"]) == (["a", "b", "c", "d"], 4)
    assert [run["id"] for run in grid["runs"]] == [alone, first]
    assert [cell and cell["state"] for cell in grid["runs"][0]["tasks"]] == [None, None, None, "waiting"]
    assert {cell["state"] for cell in grid["runs"][1]["tasks"]} == {"stopped"}
    part = admin("GET", "/v1/flows/sales/grid?pageSize=1&pageNumber=2&taskOffset=1&taskLimit=2")
    assert part.json["payload"]["tasks"] == ["b", "c"]
    assert [run["id"] for run in part.json["payload"]["runs"]] == [first]
    assert part.headers["X-Total-Count"] == "2"
    assert admin.payload("GET", "/v1/flows/sales/grid?taskOffset=4")["tasks"] == []


def test_a_grid_of_25_runs_and_200_tasks_is_one_request_and_one_query(admin: Any) -> None:
    admin.payload("POST", "/v1/flows", json=flow_entry("Sales", {f"t{n}": [] for n in range(200)}))
    moment = now()
    with transaction() as session:
        flow_id = session.scalar(select(FlowRow.id))
        ids = [new_run_id(moment) for _ in range(25)]
        run = {"flow_id": flow_id, "trigger": "schedule", "state": "running", "creator": "admin", "runner": "admin"}
        rows = [
            {**run, "id": id, "execution_date": func.to_timestamp(n), "created_at": moment} for n, id in enumerate(ids)
        ]
        for row in rows:
            session.execute(insert(RunRow).values(row))
        task = {"state": "running", "position": 0}
        session.execute(
            insert(TaskRunRow),
            [{**task, "run_id": id, "key": f"t{n}", "name": f"t{n}"} for id in ids for n in range(200)],
        )
    with counted_statements() as executed:
        grid = admin.payload("GET", "/v1/flows/sales/grid")
    assert [len(run["tasks"]) for run in grid["runs"]] == [200] * 25
    assert all(cell["state"] == "running" for run in grid["runs"] for cell in run["tasks"])
    assert len([statement for statement in executed if "task_runs" in statement]) == 1
