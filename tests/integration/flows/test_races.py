"""Several at work on one run, and calls that come twice or late."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from sqlalchemy import select, update

from pipeline_core.auth.actor import Actor
from pipeline_core.common.clock import now
from pipeline_core.database import transaction
from pipeline_core.database.models import Cleanup, Job, JobResult, RunRow, RunSignal, TaskAttempt, TemplateRevision
from pipeline_core.database.wakeups import FlowDue, RunDue
from pipeline_core.flows.runs import admission, attempts, control, progress, repository, signalled, state_machine
from pipeline_core.jobs import lifecycle
from pipeline_core.runtime import restart
from pipeline_core.states import JobState
from tests.builders import flow_entry
from tests.flows import begin, store
from tests.integration.flows.conftest import Engine

ADMIN = Actor(name="admin", admin=True)
WIDE = [f"t{number}" for number in range(40)]


def jobs_by_name(run_id: str) -> Counter[str]:
    with transaction() as session:
        return Counter(session.scalars(select(Job.name).where(Job.run_id == run_id)))


def stands(engine: Engine, run_id: str) -> dict[str, object]:
    return {
        key: (task.state, task.attempt, task.active, task.started_at, task.finished_at)
        for key, task in engine.tasks(run_id).items()
    }


def test_many_at_once_submit_each_task_once(engine: Engine) -> None:
    run_id = begin(store(flow_entry("crowd", {task: [] for task in WIDE}, parallelism=100)))
    with transaction() as session:
        flow_id = session.get_one(RunRow, run_id).flow_id
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(admission.admit, [flow_id] * 8))
        list(pool.map(progress.advance, [run_id] * 16))
    assert jobs_by_name(run_id) == Counter({f"crowd-{task}": 1 for task in WIDE})


def test_many_at_once_take_in_each_change_once(engine: Engine) -> None:
    after = {f"{task}-after": [task] for task in WIDE}
    run_id = begin(store(flow_entry("changes", {**{task: [] for task in WIDE}, **after}, parallelism=100)))
    engine.go()

    def finish(task: str) -> None:
        end(engine, run_id, task)
        progress.advance(run_id)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(finish, WIDE))
    assert set(engine.states(run_id).values()) == {"succeeded", "waiting"}
    assert set(jobs_by_name(run_id).values()) == {1}
    assert len(jobs_by_name(run_id)) == 2 * len(WIDE)
    with transaction() as session:
        assert session.scalars(select(RunSignal).where(RunSignal.run_id == run_id)).all() == []


def test_a_turn_that_is_over_leaves_the_rest_to_the_next(engine: Engine) -> None:
    run_id = begin(store(flow_entry("turns", {task: [] for task in WIDE}, parallelism=100)))
    admission.admit(engine.run(run_id).flow_id)
    assert progress.advance(run_id, seconds=0)
    assert sum(jobs_by_name(run_id).values()) == progress.BATCH
    while progress.advance(run_id, seconds=0):
        pass
    assert jobs_by_name(run_id) == Counter({f"turns-{task}": 1 for task in WIDE})


def test_turns_without_time_to_collect_all_outputs_lose_no_change(engine: Engine) -> None:
    run_id = begin(store(flow_entry("outputs", {task: [] for task in WIDE}, parallelism=100)))
    engine.go()
    for task in WIDE:
        end(engine, run_id, task)
    turns = 0
    while progress.advance(run_id, seconds=0):
        turns += 1
    assert turns > 1
    assert set(engine.states(run_id).values()) == {"succeeded"}
    assert engine.run(run_id).state == "succeeded"


def end(engine: Engine, run_id: str, task: str) -> None:
    """The task's job ends well, and nobody is notified."""
    with transaction() as session:
        job = lifecycle.lock(session, engine.jobs(run_id, task)[0])
        lifecycle.transition(session, job, JobState.RUNNING, reason="")
        lifecycle.transition(session, job, JobState.SUCCEEDED, reason="")


def test_a_job_is_stored_in_the_transaction_that_applies_the_end_of_the_one_before(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = {"b": {"env": "IN={{a.output}}"}}
    run_id = begin(store(flow_entry("row", {"a": [], "b": ["a"], "c": ["b"]}, tasks)))
    engine.go()
    left = {"output": "five", "problem": "", "metrics_problem": "", "unknown": False, "collected_at": now()}
    with transaction() as session:
        session.add(JobResult(job_id=engine.jobs(run_id, "a")[0], role="main", index=0, **left))
    monkeypatch.setattr(attempts, "process_pending", None)
    for task in "abc":
        end(engine, run_id, task)
        progress.advance(run_id)
    assert engine.run(run_id).state == "succeeded"
    assert jobs_by_name(run_id) == Counter({f"row-{task}": 1 for task in "abc"})
    _, document = engine.job(*engine.jobs(run_id, "b"))
    container = document.submitted["spec"]["roles"][0]["template"]["spec"]["containers"][0]
    assert {"name": "IN", "value": "five"} in container["env"]
    with transaction() as session:
        written = session.execute(select(TaskAttempt.pending, TaskAttempt.bytes).where(TaskAttempt.run_id == run_id))
        assert all(not pending and size for pending, size in written)


def test_what_was_read_before_another_has_changed_the_run_is_not_written(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = begin(store(flow_entry("stale", {"a": [], "b": ["a"], "c": ["b"]})))
    engine.go()
    end(engine, run_id, "a")
    read = signalled.read
    stale = [read(run_id), read(run_id)]
    progress.advance(run_id)
    end(engine, run_id, "b")
    progress.advance(run_id)
    before = stands(engine, run_id)
    monkeypatch.setattr(signalled, "read", lambda run_id: stale.pop() if stale else read(run_id))
    assert not progress.advance(run_id)
    assert stale == []
    assert stands(engine, run_id) == before
    assert jobs_by_name(run_id) == Counter({f"stale-{task}": 1 for task in "abc"})


def test_a_run_that_another_has_locked_is_left_to_it(engine: Engine) -> None:
    run_id = begin(store(flow_entry("held", {"a": [], "b": ["a"]})))
    engine.go()
    end(engine, run_id, "a")
    engine.noted.clear()
    with transaction() as session:
        repository.lock(session, run_id)
        assert not progress.advance(run_id)
    assert engine.noted == [RunDue(run_id)]
    engine.go()
    assert engine.states(run_id) == {"a": "succeeded", "b": "waiting"}
    assert len(engine.jobs(run_id, "b")) == 1


def test_a_run_of_many_tasks_starts_them_step_by_step(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_machine, "MOST_STARTED", 15)
    run_id = begin(store(flow_entry("many", {task: [] for task in WIDE}, parallelism=35)))
    admission.admit(engine.run(run_id).flow_id)
    assert [task.active for task in engine.tasks(run_id).values()].count(True) == 15
    with transaction() as session:
        session.execute(update(RunSignal).values(at=now() - timedelta(days=1)))
    assert progress.stale_signals(100) == [RunDue(run_id)]
    progress.advance(run_id)
    assert [task.active for task in engine.tasks(run_id).values()].count(True) == 35
    assert len(jobs_by_name(run_id)) == 35
    with transaction() as session:
        assert session.scalars(select(RunSignal)).all() == []
    for task in WIDE:
        end(engine, run_id, task)
        progress.advance(run_id)
    assert engine.run(run_id).state == "succeeded"
    assert jobs_by_name(run_id) == Counter({f"many-{task}": 1 for task in WIDE})


def test_a_call_that_comes_again_changes_nothing(engine: Engine) -> None:
    run_id = begin(store(flow_entry("again", {"a": [], "b": ["a"]})))
    engine.go()
    engine.turn(run_id, "a", JobState.SUCCEEDED)
    before = stands(engine, run_id)
    for _ in range(3):
        progress.advance(run_id)
        admission.admit(engine.run(run_id).flow_id)
    assert stands(engine, run_id) == before
    assert set(jobs_by_name(run_id).values()) == {1}


def test_stop_and_the_end_of_a_job_at_once_end_the_run_one_way(engine: Engine) -> None:
    for number in range(5):
        run_id = begin(store(flow_entry(f"both{number}", {"a": []})))
        engine.go()
        with ThreadPoolExecutor(2) as pool:
            pool.submit(control.stop, run_id, ADMIN)
            pool.submit(engine.turn, run_id, "a", JobState.SUCCEEDED)
        engine.go()
        run, task = engine.run(run_id), engine.tasks(run_id)["a"]
        job, _ = engine.job(*engine.jobs(run_id, "a"))
        assert JobState(job.state).final
        assert (task.state, task.active) == (job.state, False)
        assert run.state in ("stopped", task.state)


def test_a_run_that_is_stopped_before_its_job_was_submitted_submits_none(engine: Engine) -> None:
    run_id = begin(store(flow_entry("early", {"a": []})))
    admission.admit(engine.run(run_id).flow_id)
    control.stop(run_id, ADMIN)
    engine.go()
    assert jobs_by_name(run_id) == Counter()
    with transaction() as session:
        assert session.scalars(select(TaskAttempt.pending).where(TaskAttempt.run_id == run_id)).all() == [False]
    control.retry(run_id, ADMIN)
    engine.go()
    assert len(engine.jobs(run_id, "a")) == 1


def test_a_run_that_is_retried_before_its_job_was_submitted_submits_one(engine: Engine) -> None:
    run_id = begin(store(flow_entry("early-again", {"a": []})))
    admission.admit(engine.run(run_id).flow_id)
    control.stop(run_id, ADMIN)
    control.retry(run_id, ADMIN)
    engine.go()
    assert len(engine.jobs(run_id, "a")) == 1
    assert engine.tasks(run_id)["a"].attempt == 2


def test_a_sweep_finds_what_lost_calls_would_have_told(engine: Engine) -> None:
    flow = store(flow_entry("lost", {"a": []}))
    run_id = begin(flow)
    engine.noted.clear()
    assert FlowDue(flow.id) in admission.flows_with_waiting_runs(100)
    admission.admit(flow.id)
    engine.noted.clear()
    assert RunDue(run_id) not in attempts.due(100)
    with transaction() as session:
        session.execute(update(TaskAttempt).where(TaskAttempt.run_id == run_id).values(due_at=now()))
    assert RunDue(run_id) in attempts.due(100)
    assert RunDue(run_id) not in attempts.due(100)
    progress.advance(run_id)
    engine.noted.clear()
    with transaction() as session:
        job = lifecycle.lock(session, engine.jobs(run_id, "a")[0])
        lifecycle.transition(session, job, JobState.RUNNING, reason="")
    engine.noted.clear()
    assert RunDue(run_id) not in progress.stale_signals(100)
    with transaction() as session:
        session.execute(update(RunSignal).values(at=job.created_at.replace(year=2020)))
    assert RunDue(run_id) in progress.stale_signals(100)
    control.stop(run_id, ADMIN)
    control.clear(run_id, ADMIN)
    with transaction() as session:
        session.execute(update(RunSignal).values(at=job.created_at.replace(year=2020)))
    assert RunDue(run_id) not in progress.stale_signals(100)
    with transaction() as session:
        assert session.scalars(select(RunSignal)).all() == []


def test_no_two_live_jobs_share_a_port(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIPELINE_HOST_PORTS", "30000-30003")
    restart()
    template = {"job_template_name": "net", "image_name": "busybox", "job_template_expand": {"HostNetwork": "true"}}
    with transaction() as session:
        session.add(TemplateRevision(name="net", revision=1, document=template, created_at=now(), created_by="t"))
    tasks = {task: {"job_template": "net", "args": {}, "command": "true"} for task in "abc"}
    run_id = begin(store(flow_entry("ports", {task: [] for task in "abc"}, tasks)))
    engine.go()
    lent = []
    for task in "ab":
        _, document = engine.job(engine.jobs(run_id, task)[0])
        pod = document.submitted["spec"]["roles"][0]["template"]["spec"]
        lent.append([port["hostPort"] for port in pod["containers"][0]["ports"]])
    assert lent == [[30000, 30001], [30002, 30003]]
    assert engine.jobs(run_id, "c") == [], "it waits for ports"
    engine.turn(run_id, "a", JobState.SUCCEEDED)
    assert engine.jobs(run_id, "c") == [], "something of the job may be left in the cluster"
    with transaction() as session:
        session.get_one(Job, engine.jobs(run_id, "a")[0]).cleanup = Cleanup.DONE
    progress.advance(run_id)
    assert len(engine.jobs(run_id, "c")) == 1
