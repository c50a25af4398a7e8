"""Runs of flows in a whole installation: their tasks are jobs that pass all stages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline_core.auth.actor import Actor
from pipeline_core.database import transaction
from pipeline_core.flows.runs import control, queries
from pipeline_core.flows.states import Trigger
from tests.builders import flow_entry
from tests.flows import at_home_in, begin, run_of, store, wait_run, wait_task
from tests.installation import Installation
from tests.plugin_server import PluginServer

ADMIN = Actor(name="admin", admin=True)
DIAMOND = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}


@pytest.fixture
def here(service: Installation) -> Iterator[Installation]:
    with at_home_in(service):
        yield service


def test_a_diamond_runs_in_order_and_its_jobs_are_jobs(here: Installation, tmp_path: Path) -> None:
    order = tmp_path / "order"
    tasks = {task: {"script": f"echo {task} >> {order}"} for task in DIAMOND}
    run_id = begin(store(flow_entry("sys-diamond", DIAMOND, tasks)))
    run = wait_run(run_id, "succeeded", "failed")
    assert run["state"] == "succeeded", run
    assert order.read_text().split() in ([*"abcd"], [*"acbd"])
    for task in run["tasks"].values():
        job = here.job(task["jobID"])
        assert (job["state"], job["startAt"], job["finishedAt"]) == ("succeeded", task["startAt"], task["finishedAt"])
        assert job["runID"] == run_id


def test_a_failed_task_is_retried_and_the_run_can_be_retried(here: Installation, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    script = f"echo try >> {mark}; test $(wc -l < {mark}) -ge 3"
    run_id = begin(store(flow_entry("sys-retried", {"a": [], "b": ["a"]}, {"a": {"script": script, "retry": 1}})))
    run = wait_run(run_id, "failed")
    assert run["tasks"]["a"]["attempt"] == 2
    assert "exit code 1" in run["reason"]
    control.retry(run_id, ADMIN)
    run = wait_run(run_id, "succeeded")
    assert (run["tasks"]["a"]["attempt"], run["tasks"]["b"]["attempt"]) == (3, 1)


def test_a_run_that_is_stopped_leaves_nothing_running(here: Installation) -> None:
    run_id = begin(store(flow_entry("sys-stopped", {"a": [], "b": ["a"]}, {"a": {"script": "sleep 300"}})))
    job_id = wait_task(run_id, "a", "running")["jobID"]
    control.stop(run_id, ADMIN)
    assert here.wait_state(job_id, "stopped")["reason"] == f"the run {run_id} was stopped"
    assert run_of(run_id)["state"] == "stopped"


def test_a_gate_holds_a_task_up_by_its_header_until_it_is_resumed(here: Installation, plugins: PluginServer) -> None:
    def gate(packet: dict[str, Any]) -> dict[str, Any]:
        return {"decision": "suspend" if packet["header"]["taskName"] == "b" else "pass", "reason": "later"}

    here.register(
        "flow-gate",
        {
            "pluginType": "AccessGate",
            "callAddress": plugins.plugin("/gate", gate),
        },
    )
    run_id = begin(store(flow_entry("sys-gated", {"a": [], "b": ["a"]})))
    task = wait_task(run_id, "b", "suspended")
    assert run_of(run_id)["state"] == "running"
    here.put(f"/v1/job/resume/{task['jobID']}")
    assert wait_run(run_id, "succeeded")["tasks"]["b"]["attempt"] == 1


def test_a_debug_pod_logs_how_to_connect(here: Installation) -> None:
    run_id = begin(store(flow_entry("sys-debug", {"a": []}, {"a": {"script": "false"}})), Trigger.DEBUG, only="a")
    assert "cd /proc/" in wait_task(run_id, "a", "running")["reason"]
    job_id = run_of(run_id)["tasks"]["a"]["jobID"]
    control.clear(run_id, ADMIN)
    here.wait_state(job_id, "stopped")


def test_a_task_that_takes_too_long_fails(here: Installation) -> None:
    tasks = {"a": {"script": "sleep 300", "timeout": 1}}
    run = wait_run(begin(store(flow_entry("sys-timeout", {"a": []}, tasks))), "failed")
    assert "DeadlineExceeded" in run["tasks"]["a"]["reason"]


def test_what_a_task_writes_to_output_is_handed_on(here: Installation, tmp_path: Path) -> None:
    got = tmp_path / "got"
    tasks = {
        "first-one": {"script": "printf 'sum 42\\n' > /output; echo '{\"x\": 1}' > /metric.json"},
        "left": {"skip": True},
        "b": {"script": f"echo '{{{{first-one.output}}}}|{{{{left.output}}}}' > {got}"},
    }
    dag = {"first-one": [], "left": [], "b": ["first-one", "left"]}
    run_id = begin(store(flow_entry("sys-output", dag, tasks)))
    run = wait_run(run_id, "succeeded", "failed")
    assert run["state"] == "succeeded", run
    assert got.read_text() == "sum 42|\n"
    assert run["tasks"]["first-one"]["output"] == "sum 42"
    with transaction() as session:
        found = queries.metrics(session, run_id, ADMIN)
    assert found == {"first-one": [{"metric_type": "echart", "option": {"x": 1}}], "left": [], "b": []}


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("head -c 5000 /dev/zero | tr '\\0' x > /output", "4096 bytes"),
        ("printf '\\377' > /output", "not UTF-8"),
    ],
)
def test_an_output_that_cannot_be_handed_on_is_an_error_of_its_task(here: Installation, script: str, said: str) -> None:
    name = f"sys-{'long' if '4096' in said else 'bytes'}"
    run = wait_run(
        begin(store(flow_entry(name, {"a": []}, {"a": {"script": script, "retry": 2}}))), "succeeded", "failed"
    )
    assert (run["state"], run["tasks"]["a"]["state"], run["tasks"]["a"]["attempt"]) == ("failed", "failed", 1)
    assert said in run["tasks"]["a"]["reason"]


def test_a_missing_output_fails_the_task_that_reads_it(here: Installation) -> None:
    run_id = begin(store(flow_entry("sys-unknown", {"a": []}, {"a": {"script": "echo {{z.output}}"}})))
    assert "no output of a task z" in wait_run(run_id, "failed")["tasks"]["a"]["reason"]
