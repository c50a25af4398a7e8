"""Runs of flows over the API; the tests set the states of their jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select, update

from pipeline_core.auth.privileges import Privilege
from pipeline_core.clusters.base import LogLine, LogQuery
from pipeline_core.common.clock import now
from pipeline_core.database import transaction, wakeups
from pipeline_core.database.models import Job, RunDefinitionRow
from pipeline_core.database.wakeups import Wakeup
from pipeline_core.flows.runs import logs
from pipeline_core.states import JobState
from tests.builders import flow_entry
from tests.integration.flows.conftest import Engine


@pytest.fixture
def engine(app: Flask) -> Engine:
    made = Engine()

    def note(calls: Sequence[Wakeup]) -> None:
        made.noted += calls

    wakeups.publish_with(note)
    return made


@pytest.fixture
def start(admin: Any, engine: Engine) -> Callable[..., str]:
    """Creates a flow of two tasks, one after the other, and starts a run of it."""
    admin.payload("POST", "/v1/flows", json=flow())

    def begin(client: Any = admin, path: str = "run", **body: Any) -> str:
        run_id: str = client.payload("POST", f"/v1/flows/Sales/{path}", json=body)["runID"]
        engine.go()
        return run_id

    return begin


def flow(**pipeline: Any) -> Any:
    script = {"report": {"script": "echo {{DAY}}"}}
    return flow_entry("Sales", {"load": [], "report": ["load"]}, script, global_env="DAY=1\nZONE=x", **pipeline)


def states(client: Any, run_id: str) -> dict[str, str]:
    run = client.payload("GET", f"/v1/runs/{run_id}")
    return {"": run["state"], **{task["name"]: task["state"] for task in run["tasks"]}}


def test_a_run_with_the_same_idempotency_key_is_started_once(admin: Any, start: Callable[..., str]) -> None:
    start()
    keyed: dict[str, Any] = {"headers": {"Idempotency-Key": "nightly"}, "json": {"variables": {"DAY": "2"}}}
    first, second = (admin.payload("POST", "/v1/flows/Sales/run", **keyed) for _ in range(2))
    assert first == second
    assert admin("POST", "/v1/flows/Sales/tasks/load/run", **keyed).status_code == 409
    assert admin("POST", "/v1/flows/Sales/run", **keyed | {"json": {}}).status_code == 409
    assert len(admin.payload("GET", "/v1/flows/Sales/runs")) == 2


def test_a_run_is_shown_from_its_beginning_to_its_end(admin: Any, engine: Engine, start: Callable[..., str]) -> None:
    run_id = start(reason="late data")
    run = admin.payload("GET", f"/v1/runs/{run_id}")
    assert (run["flow"], run["trigger"], run["runner"], run["state"]) == ("Sales", "manual", "admin", "running")
    assert [task["name"] for task in run["tasks"]] == ["load", "report"]
    assert (run["tasks"][0]["jobID"][0], run["tasks"][1]["jobID"]) == ("j", None)
    for task in ("load", "report"):
        engine.turn(run_id, task, JobState.SUCCEEDED)
    assert states(admin, run_id) == {"": "succeeded", "load": "succeeded", "report": "succeeded"}
    assert admin.payload("GET", f"/v1/job/detail/{run['tasks'][0]['jobID']}")["job"]["userID"] == "admin"


def test_variables_take_the_place_of_values_and_unknown_ones_are_refused(
    admin: Any, engine: Engine, start: Callable[..., str]
) -> None:
    run_id = start(variables={"DAY": 7})
    engine.turn(run_id, "load", JobState.SUCCEEDED)
    taskset = admin("GET", f"/v1/job/config/{engine.jobs(run_id, 'report')[0]}").text
    assert "echo 7" in taskset
    for variables in ({"YEAR": "1"}, {"DAY": []}, {"DAY": None}, "DAY=1", []):
        answer = admin("POST", "/v1/flows/Sales/run", json={"variables": variables})
        assert (answer.status_code, answer.json["code"]) == (400, "WRONG_PARAM"), answer.text
        assert [path.split(".")[0] for path in answer.json["errors"]] == ["variables"]
    assert admin("POST", "/v1/flows/Sales/run", json={"reason": "x" * 1001}).status_code == 400


def test_a_task_runs_alone_and_as_a_debug_pod(admin: Any, engine: Engine, start: Callable[..., str]) -> None:
    alone = start(path="tasks/LOAD/run")
    assert admin.payload("GET", f"/v1/runs/{alone}")["trigger"] == "task"
    assert states(admin, alone) == {"": "running", "load": "waiting"}
    debug = start(path="tasks/report/debug")
    assert admin.payload("GET", f"/v1/runs/{debug}")["trigger"] == "debug"
    assert "sleep" in admin("GET", f"/v1/job/config/{engine.jobs(debug, 'report')[0]}").text
    for path in ("Sales/tasks/ghost/run", "Sales/tasks/ghost/debug", "ghost/run"):
        assert admin("POST", f"/v1/flows/{path}").status_code == 404, path


def test_runs_are_listed_by_what_is_asked_for(admin: Any, engine: Engine, start: Callable[..., str]) -> None:
    first, second = start(), start(path="tasks/load/run")
    admin.payload("POST", "/v1/flows", json=flow_entry("other", {"a": []}))
    other = admin.payload("POST", "/v1/flows/other/run")["runID"]
    engine.go()
    admin.payload("PUT", f"/v1/runs/{first}/stop")

    def listed(path: str) -> list[str]:
        return [run["id"] for run in admin.payload("GET", path)]

    assert listed("/v1/runs") == [other, second, first]
    assert listed("/v1/flows/sales/runs") == listed("/v1/runs?flow=SALES") == [second, first]
    assert listed("/v1/flows/sales/runs?state=stopped,failed") == listed("/v1/runs?state=stopped") == [first]
    assert listed("/v1/runs?trigger=task,debug") == [second]
    answer = admin("GET", "/v1/runs?pageSize=1&pageNumber=2")
    assert (answer.json["payload"][0]["id"], answer.headers["X-Total-Count"]) == (second, "3")
    assert "tasks" not in answer.json["payload"][0]
    for path in ("/v1/runs?state=gone", "/v1/runs?trigger=x", "/v1/runs?state=", "/v1/flows/sales/runs?flow=a"):
        assert admin("GET", path).status_code == 400, path
    assert admin("GET", "/v1/flows/ghost/runs").status_code == 404


def test_a_failed_run_is_retried_and_a_running_one_is_not(
    admin: Any, engine: Engine, start: Callable[..., str]
) -> None:
    run_id = start()
    answer = admin("POST", f"/v1/runs/{run_id}/retry")
    assert (answer.status_code, answer.json["code"]) == (409, "UNSUPPORTED_OPERATION")
    engine.turn(run_id, "load", JobState.FAILED)
    assert states(admin, run_id)[""] == "failed"
    admin.payload("POST", f"/v1/runs/{run_id}/retry")
    engine.go()
    assert states(admin, run_id)["load"] == "waiting"
    assert len(engine.jobs(run_id, "load")) == 2


def test_a_failed_task_counts_as_what_it_is_marked_as(admin: Any, engine: Engine, start: Callable[..., str]) -> None:
    run_id = start()
    path = f"/v1/runs/{run_id}/tasks/Load"
    engine.turn(run_id, "load", JobState.FAILED)
    for body in ({"mark": "failed"}, {"mark": ""}, {}, {"mark": "skipped", "odd": 1}, {"mark": 1}):
        answer = admin("PUT", path, json=body)
        assert (answer.status_code, answer.json["code"] in ("WRONG_PARAM", "LACK_OF_PARAM")) == (400, True)
    admin.payload("PUT", path, json={"mark": "skipped", "reason": "by hand"})
    engine.go()
    assert states(admin, run_id) == {"": "running", "load": "skipped", "report": "waiting"}
    assert admin("PUT", path, json={"mark": "skipped"}).status_code == 409
    assert admin("PUT", f"/v1/runs/{run_id}/tasks/ghost", json={"mark": "skipped"}).status_code == 404


def test_a_stopped_run_stays_so_and_can_be_deleted(admin: Any, engine: Engine, start: Callable[..., str]) -> None:
    run_id = start()
    assert admin("DELETE", f"/v1/runs/{run_id}").status_code == 409
    admin.payload("PUT", f"/v1/runs/{run_id}/stop", json={"reason": "wrong data"})
    admin.payload("PUT", f"/v1/runs/{run_id}/stop")
    assert admin.payload("GET", f"/v1/runs/{run_id}")["reason"] == "wrong data"
    assert admin("PUT", f"/v1/runs/{run_id}/dismiss").status_code == 409
    engine.go()
    admin.payload("DELETE", f"/v1/runs/{run_id}")
    for method, path in (("GET", ""), ("GET", "/logs"), ("GET", "/metrics"), ("PUT", "/stop"), ("DELETE", "")):
        assert admin(method, f"/v1/runs/{run_id}{path}").status_code == 404, path


def test_a_flow_that_runs_is_not_deleted_and_goes_with_its_history(
    admin: Any, engine: Engine, start: Callable[..., str]
) -> None:
    run_id = start()
    answer = admin("DELETE", "/v1/flows/sales")
    assert (answer.status_code, answer.json["code"]) == (409, "UNSUPPORTED_OPERATION")
    assert states(admin, run_id)[""] == "running"
    admin.payload("PUT", f"/v1/runs/{run_id}/stop")
    engine.go()
    admin.payload("DELETE", "/v1/flows/sales")
    assert admin("GET", f"/v1/runs/{run_id}").status_code == 404
    assert admin("POST", "/v1/flows/sales/run").status_code == 404


def test_a_run_goes_on_with_what_it_began_with(admin: Any, engine: Engine, start: Callable[..., str]) -> None:
    template = {"job_template_name": "t", "image_name": "before", "job_template_command": "true"}
    admin.payload("POST", "/v1/templates", json={"t": template})
    task = {"job_template": "t", "args": {}}
    dag = {"a": [], "b": ["a"]}
    admin.payload("POST", "/v1/flows", json=flow_entry("f", dag, {"a": task, "b": task}))
    run_id = admin.payload("POST", "/v1/flows/f/run")["runID"]
    engine.go()
    admin.payload("POST", "/v1/templates", json={"t": {**template, "image_name": "after"}})
    admin.payload("PUT", "/v1/flows/f", json=flow_entry("f", {"other": []}))
    engine.turn(run_id, "a", JobState.SUCCEEDED)
    assert '"image":"before"' in admin("GET", f"/v1/job/config/{engine.jobs(run_id, 'b')[0]}").text
    with transaction() as session:
        document = session.scalars(select(RunDefinitionRow).where(RunDefinitionRow.run_id == run_id)).one()
    assert [*document.templates] == ["t"]
    assert document.templates["t"]["image_name"] == "before"


def test_a_token_that_sees_only_its_own_finds_no_other_s_runs(
    admin: Any, bearer: Callable[..., Any], engine: Engine, start: Callable[..., str]
) -> None:
    theirs = start()
    own = bearer(Privilege.READ_JOB, Privilege.WRITE_JOB, forwho="ada", own_only=True)
    own.payload("POST", "/v1/flows", json=flow_entry("mine", {"a": []}))
    mine = own.payload("POST", "/v1/flows/mine/run")["runID"]
    engine.go()
    assert [run["id"] for run in own.payload("GET", "/v1/runs")] == [mine]
    assert own.payload("GET", f"/v1/runs/{mine}")["runner"] == "ada"
    for method, path in (
        *(("GET", ""), ("GET", "/logs"), ("GET", "/metrics"), ("PUT", "/stop"), ("POST", "/retry")),
        *(("PUT", "/dismiss"), ("DELETE", "")),
    ):
        assert own(method, f"/v1/runs/{theirs}{path}").status_code == 404, path
    assert own("PUT", f"/v1/runs/{theirs}/tasks/load", json={"mark": "skipped"}).status_code == 404


class Talking:
    """A cluster whose jobs have written a line each, a second apart."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def logs(self, job_id: str, query: LogQuery) -> Iterator[LogLine]:
        self.asked.append(job_id)
        yield LogLine(now() + timedelta(seconds=len(self.asked)), "main-0", f"from {job_id}")


def test_logs_of_a_run_s_tasks_are_merged(
    admin: Any, engine: Engine, start: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Talking()
    monkeypatch.setattr(logs, "cluster", lambda: cluster)
    run_id = start()
    engine.turn(run_id, "load", JobState.SUCCEEDED)
    assert admin("GET", f"/v1/runs/{run_id}/logs?task=report").text == ""
    engine.turn(run_id, "report", JobState.RUNNING)
    first, second = (engine.jobs(run_id, task)[0] for task in ("load", "report"))
    assert admin("GET", f"/v1/runs/{run_id}/logs").text == f"load | from {first}\nreport | from {second}\n"
    assert admin("GET", f"/v1/runs/{run_id}/logs?task=REPORT").text == f"from {second}\n"
    assert admin("GET", f"/v1/runs/{run_id}/logs?tail=1").text == f"report | from {second}\n"
    engine.turn(run_id, "report", JobState.SUCCEEDED)
    assert admin("GET", f"/v1/runs/{run_id}/logs?attempt=1&task=load").text == f"from {first}\n"
    for missing in ("attempt=2", "attempt=2&task=load"):
        answer = admin("GET", f"/v1/runs/{run_id}/logs?{missing}")
        assert (answer.status_code, "attempt 2" in answer.json["msg"]) == (404, True)
    assert admin("GET", f"/v1/runs/{run_id}/logs?attempt=0").status_code == 400
    followed = admin("GET", f"/v1/runs/{run_id}/logs?follow=true")
    assert sorted(followed.text.splitlines()) == [f"load | from {first}", f"report | from {second}"]
    assert admin("GET", f"/v1/runs/{run_id}/logs?task=ghost").status_code == 404
    for job_id, expired in ((first, {"load"}), (second, {"load", "report"})):
        with transaction() as session:
            session.execute(update(Job).where(Job.id == job_id).values(logs_pruned_at=now()))
        statuses = {
            task: admin("GET", f"/v1/runs/{run_id}/logs?task={task}").status_code for task in ("load", "report")
        }
        assert {task for task, status in statuses.items() if status == 410} == expired
    answer = admin("GET", f"/v1/runs/{run_id}/logs")
    assert (answer.status_code, answer.json["code"]) == (410, "OPERATION_TARGET_NOT_FOUND")
    assert admin("GET", f"/v1/runs/{run_id}/logs?tail=x").status_code == 400


def test_a_run_without_metrics_has_none_of_each_task(admin: Any, start: Callable[..., str]) -> None:
    assert admin.payload("GET", f"/v1/runs/{start()}/metrics") == {"load": [], "report": []}
