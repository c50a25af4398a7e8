"""Runs from start to end, with jobs that do what the test says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline_core.auth.actor import Actor
from pipeline_core.common.clock import now
from pipeline_core.database import transaction
from pipeline_core.database.models import JobResult
from pipeline_core.flows.runs import attempts, control
from pipeline_core.flows.runs.state_machine import STILL_ENDING
from pipeline_core.flows.states import TaskState
from pipeline_core.jobs import cleanup
from pipeline_core.settings import settings
from pipeline_core.states import JobState
from tests.builders import flow_entry
from tests.flows import begin, store
from tests.integration.flows.conftest import Engine

ADMIN = Actor(name="admin", admin=True)
DIAMOND = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}


def test_a_diamond_runs_from_its_top_to_its_bottom(engine: Engine) -> None:
    run_id = begin(store(flow_entry("diamond", DIAMOND)))
    engine.go()
    assert engine.run(run_id).state == "running"
    assert [len(engine.jobs(run_id, task)) for task in DIAMOND] == [1, 0, 0, 0]
    engine.turn(run_id, "a", JobState.RUNNING)
    assert engine.states(run_id)["a"] == "running"
    engine.turn(run_id, "a", JobState.SUCCEEDED)
    assert [len(engine.jobs(run_id, task)) for task in DIAMOND] == [1, 1, 1, 0]
    engine.turn(run_id, "c", JobState.SUCCEEDED)
    engine.turn(run_id, "b", JobState.SUCCEEDED)
    engine.turn(run_id, "d", JobState.SUCCEEDED)
    run = engine.run(run_id)
    assert (run.state, run.reason) == ("succeeded", "")
    assert run.created_at <= run.started_at <= run.finished_at
    for task in engine.tasks(run_id).values():
        job, _ = engine.job(engine.jobs(run_id, task.key)[0])
        assert (task.started_at, task.finished_at, task.attempt) == (job.started_at, job.finished_at, 1)


def test_a_job_says_what_it_is_for(engine: Engine) -> None:
    run_id = begin(store(flow_entry("Of_Mine", {"Fetch_it": []})), request_id="req1")
    engine.go()
    job, document = engine.job(*engine.jobs(run_id, "fetch-it"))
    assert (job.user_id, job.name, job.kind, job.run_id, job.request_id) == (
        "u1",
        "Of_Mine-Fetch_it",
        "TaskSet",
        run_id,
        "req1",
    )
    assert (
        document.header.items()
        >= {
            "flowName": "Of_Mine",
            "taskName": "Fetch_it",
            "runID": run_id,
            "trigger": "manual",
            "project": "public",
            "template": "customize",
        }.items()
    )


def test_a_failed_task_is_tried_again_as_another_job(engine: Engine) -> None:
    run_id = begin(store(flow_entry("again", {"a": []}, {"a": {"retry": 1}})))
    engine.go()
    engine.turn(run_id, "a", JobState.FAILED, reason="first")
    task = engine.tasks(run_id)["a"]
    assert (task.state, task.attempt, task.reason, task.finished_at) == ("waiting", 2, "first", None)
    engine.turn(run_id, "a", JobState.FAILED, reason="second")
    assert len(engine.jobs(run_id, "a")) == 2
    assert (engine.run(run_id).state, engine.run(run_id).reason) == ("failed", "task a: second")


def test_with_fail_fast_nothing_more_starts_and_what_runs_is_let_finish(engine: Engine) -> None:
    run_id = begin(store(flow_entry("fast", {"a": [], "b": [], "c": ["b"]})))
    engine.go()
    engine.turn(run_id, "a", JobState.FAILED)
    assert engine.run(run_id).state == "running"
    engine.turn(run_id, "b", JobState.SUCCEEDED)
    assert engine.states(run_id) == {"a": "failed", "b": "succeeded", "c": "stopped"}
    assert engine.run(run_id).state == "failed"


def test_without_fail_fast_only_what_depends_on_a_failure_is_given_up(engine: Engine) -> None:
    run_id = begin(store(flow_entry("slow", {"a": [], "b": [], "c": ["b"], "d": ["a"]}, failFast=False)))
    engine.go()
    engine.turn(run_id, "a", JobState.FAILED)
    engine.turn(run_id, "b", JobState.SUCCEEDED)
    engine.turn(run_id, "c", JobState.SUCCEEDED)
    assert engine.states(run_id) == {"a": "failed", "b": "succeeded", "c": "succeeded", "d": "upstream_failed"}
    assert engine.run(run_id).state == "failed"


def test_a_failed_run_goes_on_where_it_failed(engine: Engine) -> None:
    run_id = begin(store(flow_entry("resumed", {"a": [], "b": ["a"], "c": ["b"]})))
    engine.go()
    engine.turn(run_id, "a", JobState.SUCCEEDED)
    engine.turn(run_id, "b", JobState.FAILED)
    control.retry(run_id, ADMIN)
    engine.go()
    assert (engine.run(run_id).state, engine.run(run_id).finished_at) == ("running", None)
    engine.turn(run_id, "b", JobState.SUCCEEDED)
    engine.turn(run_id, "c", JobState.SUCCEEDED)
    assert engine.run(run_id).state == "succeeded"
    assert [len(engine.jobs(run_id, task)) for task in "abc"] == [1, 2, 1]


def test_a_task_whose_output_others_read_fails_when_it_cannot_be_collected(engine: Engine) -> None:
    tasks = {"b": {"env": "IN={{a.output}}"}}
    run_id = begin(store(flow_entry("lost", {"a": [], "b": ["a"], "c": []}, tasks)))
    engine.go()
    lost = {"problem": "nothing can be mounted here", "unknown": True, "metrics_problem": "", "collected_at": now()}
    with transaction() as session:
        session.add_all(JobResult(job_id=engine.jobs(run_id, task)[0], role="main", index=0, **lost) for task in "ac")
    engine.turn(run_id, "c", JobState.SUCCEEDED)
    engine.turn(run_id, "a", JobState.SUCCEEDED)
    assert engine.states(run_id) == {"a": "failed", "b": "upstream_failed", "c": "succeeded"}
    reason = engine.tasks(run_id)["a"].reason
    assert reason == "its output is read by b and could not be collected: nothing can be mounted here"
    assert engine.jobs(run_id, "b") == []


def test_skipped_and_logical_tasks_have_no_jobs(engine: Engine) -> None:
    tasks = {"b": {"skip": True}, "c": {"job_template": "logical", "args": {}}}
    run_id = begin(store(flow_entry("joined", DIAMOND, tasks)))
    engine.go()
    engine.turn(run_id, "a", JobState.SUCCEEDED)
    assert engine.states(run_id) == {"a": "succeeded", "b": "skipped", "c": "succeeded", "d": "waiting"}
    assert [len(engine.jobs(run_id, task)) for task in DIAMOND] == [1, 0, 0, 1]


def test_a_run_that_runs_nothing_has_begun_when_it_ends(engine: Engine) -> None:
    run_id = begin(store(flow_entry("nothing", {"a": []}, {"a": {"job_template": "logical", "args": {}}})))
    engine.go()
    run = engine.run(run_id)
    assert (run.state, run.started_at) == ("succeeded", run.finished_at)


def test_a_suspended_job_shows_in_its_task(engine: Engine) -> None:
    run_id = begin(store(flow_entry("gated", {"a": []})))
    engine.go()
    engine.turn(run_id, "a", JobState.SUSPENDED)
    assert engine.states(run_id) == {"a": "suspended"}
    engine.turn(run_id, "a", JobState.WAITING)
    assert engine.states(run_id) == {"a": "waiting"}
    engine.turn(run_id, "a", JobState.SUCCEEDED)
    assert engine.run(run_id).state == "succeeded"


def test_no_more_tasks_run_at_a_time_than_the_flow_says(engine: Engine) -> None:
    tasks = [f"t{number}" for number in range(5)]
    run_id = begin(store(flow_entry("narrow", {task: [] for task in tasks}, parallelism=2)))
    engine.go()
    for task in tasks:
        assert sum(row.active for row in engine.tasks(run_id).values()) <= 2
        engine.turn(run_id, task, JobState.SUCCEEDED)
    assert engine.run(run_id).state == "succeeded"


def test_stopping_a_run_stops_its_jobs(engine: Engine) -> None:
    run_id = begin(store(flow_entry("stopped", {"a": [], "b": ["a"]})))
    engine.go()
    control.stop(run_id, ADMIN, reason="enough")
    engine.go()
    job, _ = engine.job(*engine.jobs(run_id, "a"))
    assert (job.state, job.reason) == ("stopped", f"the run {run_id} was stopped")
    assert engine.states(run_id) == {"a": "stopped", "b": "stopped"}
    assert (engine.run(run_id).state, engine.run(run_id).reason) == ("stopped", "enough")


def test_a_job_that_succeeded_before_its_run_was_stopped_is_not_run_again(engine: Engine) -> None:
    run_id = begin(store(flow_entry("succeeded-first", {"a": [], "b": ["a"]})))
    engine.go()
    engine.turn_in_cluster(engine.jobs(run_id, "a")[0], JobState.RUNNING, JobState.SUCCEEDED)
    control.stop(run_id, ADMIN)
    engine.go()
    assert engine.states(run_id) == {"a": "succeeded", "b": "stopped"}
    control.retry(run_id, ADMIN)
    engine.go()
    engine.turn(run_id, "b", JobState.SUCCEEDED)
    assert len(engine.jobs(run_id, "a")) == 1
    assert engine.run(run_id).state == "succeeded"


def test_a_retry_begins_when_nothing_of_the_stopped_job_runs_any_more(engine: Engine) -> None:
    run_id = begin(store(flow_entry("ending", {"a": []})))
    engine.go()
    [job_id] = engine.jobs(run_id, "a")
    engine.turn_in_cluster(job_id, JobState.RUNNING)
    control.stop(run_id, ADMIN)
    control.retry(run_id, ADMIN)
    engine.go()
    task = engine.tasks(run_id)["a"]
    assert (engine.run(run_id).state, task.state, task.reason) == ("running", "stopped", STILL_ENDING)
    assert engine.jobs(run_id, "a") == [job_id]
    assert cleanup.clean_up(job_id)
    engine.go()
    assert len(engine.jobs(run_id, "a")) == 2
    engine.turn(run_id, "a", JobState.SUCCEEDED)
    assert engine.run(run_id).state == "succeeded"


def test_a_job_that_failed_in_the_cluster_before_its_run_was_stopped_does_not_hold_up_a_retry(engine: Engine) -> None:
    run_id = begin(store(flow_entry("failed-first", {"a": []})))
    engine.go()
    [job_id] = engine.jobs(run_id, "a")
    engine.turn_in_cluster(job_id, JobState.RUNNING, JobState.FAILED, reason="exit 1")
    control.stop(run_id, ADMIN)
    engine.go()
    task = engine.tasks(run_id)["a"]
    assert (task.state, task.active, task.reason) == ("failed", False, "exit 1")
    control.retry(run_id, ADMIN)
    engine.go()
    assert len(engine.jobs(run_id, "a")) == 2
    engine.turn(run_id, "a", JobState.SUCCEEDED)
    assert engine.run(run_id).state == "succeeded"


def test_a_marked_task_lets_a_failed_run_go_on(engine: Engine) -> None:
    run_id = begin(store(flow_entry("marked", {"a": [], "b": ["a"]})))
    engine.go()
    engine.turn(run_id, "a", JobState.FAILED)
    control.mark(run_id, "A", TaskState.SKIPPED, ADMIN)
    engine.go()
    assert engine.states(run_id) == {"a": "skipped", "b": "waiting"}
    engine.turn(run_id, "b", JobState.SUCCEEDED)
    assert engine.run(run_id).state == "succeeded"


def test_a_task_that_cannot_be_made_ready_fails_without_another_try(engine: Engine) -> None:
    tasks = {"a": {"job_template": "gone", "retry": 3}, "b": {"script": "echo {{c.output}}"}}
    run_id = begin(store(flow_entry("wrong", {"a": [], "b": []}, tasks, failFast=False)))
    engine.go()
    found = engine.tasks(run_id)
    assert {task.state for task in found.values()} == {"failed"}
    assert "names the template" in found["a"].reason
    assert "no output of a task c" in found["b"].reason
    assert engine.jobs(run_id, "a") == engine.jobs(run_id, "b") == []


def test_a_run_stores_no_more_tasksets_than_it_may(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    large = {"args": {"images": "busybox", "command": "true # " + "x" * 10_000}}
    run_id = begin(store(flow_entry("large", {"a": [], "b": ["a"], "c": ["b"]}, dict.fromkeys("abc", large))))
    limited = replace(settings(), run_max_bytes=25_000)
    monkeypatch.setattr(attempts, "settings", lambda: limited)
    engine.go()
    engine.turn(run_id, "a", JobState.SUCCEEDED)
    engine.turn(run_id, "b", JobState.SUCCEEDED)
    assert engine.states(run_id) == {"a": "succeeded", "b": "succeeded", "c": "failed"}
    assert "PIPELINE_RUN_MAX_BYTES" in engine.tasks(run_id)["c"].reason


def test_a_task_whose_job_cannot_be_built_for_an_unknown_reason_keeps_no_end_from_being_applied(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = begin(store(flow_entry("broken", {"a": [], "b": ["a"]})))
    engine.go()
    with monkeypatch.context() as patch:
        patch.setattr(attempts.taskset, "build", lambda *args: {}["a bug"])
        with pytest.raises(KeyError, match="a bug"):
            engine.turn(run_id, "a", JobState.SUCCEEDED)
        assert engine.states(run_id) == {"a": "succeeded", "b": "waiting"}
    engine.go()
    assert len(engine.jobs(run_id, "b")) == 1
