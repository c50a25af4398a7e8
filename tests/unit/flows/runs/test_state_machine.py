from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from pipeline_core.flows.definition.catalogue import Catalogue
from pipeline_core.flows.definition.documents import read_document
from pipeline_core.flows.definition.templates import read_templates
from pipeline_core.flows.notation.dag import Dag
from pipeline_core.flows.runs.state_machine import (
    FAIL_FAST,
    MOST_STARTED,
    STILL_ENDING,
    FinishRun,
    JobChanged,
    Run,
    RunAdmitted,
    RunCommand,
    RunEvent,
    RunPlan,
    RunRetried,
    RunStopped,
    StartMore,
    StopJob,
    SubmitJob,
    TaskMarked,
    advance,
    can_mark,
    can_retry,
    new_run,
    plan_run,
)
from pipeline_core.flows.states import RunState, TaskState
from pipeline_core.states import JobState
from tests.unit.flows.flow_cases import case, site

DIAMOND = {"top": [], "left": ["top"], "right": ["top"], "end": ["left", "right"]}


def plan(upstream: dict[str, list[str]], **rest: Any) -> RunPlan:
    return RunPlan(dag=Dag.of(upstream), **rest)


def play(run: Run, *events: RunEvent) -> tuple[Run, list[RunCommand]]:
    """The run after all events, and the commands of the last."""
    commands: tuple[RunCommand, ...] = ()
    for event in events:
        run, commands = advance(run, event)
    return run, list(commands)


def ended(task: str, state: JobState = JobState.SUCCEEDED, attempt: int = 1) -> JobChanged:
    return JobChanged(task, attempt, state, "exit 1" if state is JobState.FAILED else "")


def states(run: Run) -> dict[str, str]:
    return {name: task.state.value for name, task in run.tasks.items()}


def test_tasks_start_when_all_before_them_are_done() -> None:
    run, commands = play(new_run(plan(DIAMOND)), RunAdmitted())
    assert commands == [SubmitJob("top", 1)]
    run, commands = play(run, ended("top"))
    assert commands == [SubmitJob("left", 1), SubmitJob("right", 1)]
    run, commands = play(run, JobChanged("left", 1, JobState.RUNNING), ended("left"))
    assert commands == []
    run, commands = play(run, ended("right"))
    assert commands == [SubmitJob("end", 1)]
    run, commands = play(run, ended("end"))
    assert commands == [FinishRun(RunState.SUCCEEDED)]
    assert run.state is RunState.SUCCEEDED


def test_no_more_tasks_than_the_parallelism_are_under_way() -> None:
    run, commands = play(new_run(plan({name: [] for name in "abc"}, parallelism=2)), RunAdmitted())
    assert commands == [SubmitJob("a", 1), SubmitJob("b", 1)]
    assert play(run, ended("b"))[1] == [SubmitJob("c", 1)]


def test_events_that_come_together_are_all_taken_in_before_anything_more_starts() -> None:
    run, _ = advance(new_run(plan({"a": [], "b": [], "c": ["a"]})), RunAdmitted())
    run, commands = advance(run, ended("a"), ended("b", JobState.FAILED))
    assert commands == (FinishRun(RunState.FAILED, "task b: exit 1"),)
    assert states(run) == {"a": "succeeded", "b": "failed", "c": "stopped"}
    assert advance(run, ended("a"), ended("b")) == (run, ())


def test_a_failed_task_is_retried_first() -> None:
    run, commands = play(new_run(plan({"a": []}, retries={"a": 1})), RunAdmitted(), ended("a", JobState.FAILED))
    assert commands == [SubmitJob("a", 2)]
    assert (run.tasks["a"].state, run.tasks["a"].reason) == (TaskState.WAITING, "exit 1")
    assert play(run, ended("a", JobState.FAILED))[0] == run
    run, commands = play(run, ended("a", JobState.FAILED, 2))
    assert commands == [FinishRun(RunState.FAILED, "task a: exit 1")]


def test_a_non_retryable_failure_is_not_retried() -> None:
    run, _ = play(new_run(plan({"a": []}, retries={"a": 9})), RunAdmitted())
    assert play(run, JobChanged("a", 1, JobState.FAILED, "no value", non_retryable=True))[0].state is RunState.FAILED


def test_after_a_failure_nothing_starts_and_what_runs_is_let_finish() -> None:
    upstream = {"a": [], "b": [], "c": [], "after-a": ["a"], "after-b": ["b"]}
    run, _ = play(new_run(plan(upstream, parallelism=2, retries={"b": 3})), RunAdmitted())
    run, commands = play(run, ended("a", JobState.FAILED))
    assert commands == []
    assert states(run) == {
        "a": "failed",
        "b": "waiting",
        "c": "waiting",
        "after-a": "upstream_failed",
        "after-b": "waiting",
    }
    run, commands = play(run, ended("b"))
    assert commands == [FinishRun(RunState.FAILED, "task a: exit 1")]
    assert states(run) == {
        "a": "failed",
        "b": "succeeded",
        "c": "stopped",
        "after-a": "upstream_failed",
        "after-b": "stopped",
    }
    assert run.tasks["c"].reason == FAIL_FAST


def test_without_fail_fast_only_what_depends_on_a_failure_is_given_up() -> None:
    upstream = {"a": [], "b": [], "after-a": ["a"], "both": ["after-a", "b"], "after-b": ["b"]}
    run, _ = play(new_run(plan(upstream, fail_fast=False)), RunAdmitted(), ended("a", JobState.FAILED))
    assert states(run)["both"] == "upstream_failed"
    run, commands = play(run, ended("b"))
    assert commands == [SubmitJob("after-b", 1)]
    run, commands = play(run, ended("after-b"))
    assert commands == [FinishRun(RunState.FAILED, "task a: exit 1")]


def test_a_skipped_task_counts_as_done_and_logical_ones_need_no_job() -> None:
    upstream = {"a": [], "skip": ["a"], "join": ["skip"], "last": ["join"]}
    run, commands = play(
        new_run(plan(upstream, skipped=frozenset({"skip"}), logical=frozenset({"join"}))), RunAdmitted()
    )
    assert (commands, states(run)["join"]) == ([SubmitJob("a", 1)], "waiting")
    run, commands = play(run, ended("a"))
    assert commands == [SubmitJob("last", 1)]
    assert states(run) == {"a": "succeeded", "skip": "skipped", "join": "succeeded", "last": "waiting"}


def test_a_flow_of_skipped_and_logical_tasks_ends_at_once() -> None:
    run = new_run(plan({"a": [], "b": ["a"]}, skipped=frozenset("a"), logical=frozenset("b")))
    assert play(run, RunAdmitted())[1] == [FinishRun(RunState.SUCCEEDED)]


def test_stopping_a_run_stops_its_jobs_and_what_waits() -> None:
    run, commands = play(
        new_run(plan(DIAMOND)),
        RunAdmitted(),
        ended("top"),
        JobChanged("left", 1, JobState.RUNNING),
        RunStopped("by ann"),
    )
    assert commands == [StopJob("left", 1), StopJob("right", 1), FinishRun(RunState.STOPPED, "by ann")]
    assert states(run) == {"top": "succeeded", "left": "stopped", "right": "stopped", "end": "stopped"}
    assert run.active == ["left", "right"]
    assert play(run, RunStopped(), JobChanged("left", 1, JobState.RUNNING))[0] == run
    run, commands = play(run, ended("left", JobState.STOPPED), ended("right", JobState.STOPPED))
    assert (commands, run.active) == ([], [])
    assert {run.tasks[name].reason for name in ("left", "right", "end")} == {"by ann"}


def test_a_job_that_ended_by_itself_before_its_run_was_stopped_counts_as_it_ended() -> None:
    run, _ = play(new_run(plan(DIAMOND)), RunAdmitted(), ended("top"), RunStopped("by ann"))
    run, commands = play(run, ended("left"), ended("right", JobState.FAILED))
    assert (commands, run.state, run.reason) == ([], RunState.STOPPED, "by ann")
    assert states(run) == {"top": "succeeded", "left": "succeeded", "right": "failed", "end": "stopped"}
    run, commands = play(run, RunRetried(), RunAdmitted())
    assert commands == [SubmitJob("right", 2)]


@pytest.mark.parametrize("events", [[], [RunRetried(), RunAdmitted()]])
def test_a_job_that_failed_before_its_run_was_stopped_has_ended_although_its_cleanup_has_not(
    events: list[RunEvent],
) -> None:
    run, _ = play(new_run(plan({"a": []})), RunAdmitted(), RunStopped("by ann"), *events)
    run, _ = play(run, JobChanged("a", 1, JobState.FAILED, "exit 1", ending=True))
    assert (states(run), run.tasks["a"].attempt) == (({"a": "waiting"}, 2) if events else ({"a": "failed"}, 1))


def test_a_retried_run_runs_a_task_again_when_nothing_of_its_stopped_job_is_left() -> None:
    run, _ = play(new_run(plan(DIAMOND, retries={"left": 1})), RunAdmitted(), ended("top"), RunStopped("by ann"))
    run, commands = play(run, ended("right", JobState.STOPPED), RunRetried(), RunAdmitted())
    assert commands == [SubmitJob("right", 2)]
    assert (run.tasks["left"].state, run.tasks["left"].reason) == (TaskState.STOPPED, STILL_ENDING)
    ending = JobChanged("left", 1, JobState.STOPPED, ending=True)
    assert play(run, ending)[0] is run
    run, commands = play(run, ended("right", attempt=2), ended("left", JobState.STOPPED))
    assert commands == [SubmitJob("left", 2)]
    assert run.tasks["left"].retries_left == 1


@pytest.mark.parametrize("again", [[], [RunAdmitted()]])
def test_a_retried_run_that_is_stopped_again_still_waits_for_the_first_jobs(again: list[RunEvent]) -> None:
    run, _ = play(new_run(plan({"a": []})), RunAdmitted(), RunStopped("once"), RunRetried(), *again)
    run, commands = play(run, RunStopped("twice"))
    assert commands == [StopJob("a", 1), FinishRun(RunState.STOPPED, "twice")]
    run, commands = play(run, ended("a"))
    assert (commands, states(run)) == ([], {"a": "succeeded"})
    assert play(run, RunRetried(), RunAdmitted())[1] == [FinishRun(RunState.SUCCEEDED)]


def test_a_retry_runs_failed_tasks_and_those_after_them_again() -> None:
    run, _ = play(new_run(plan(DIAMOND, retries={"left": 1})), RunAdmitted(), ended("top"), ended("right"))
    run, _ = play(run, ended("left", JobState.FAILED), ended("left", JobState.FAILED, 2))
    assert can_retry(run)
    run, commands = play(run, RunRetried())
    assert (commands, run.state) == ([], RunState.WAITING)
    run, commands = play(run, RunAdmitted())
    assert (commands, run.state) == ([SubmitJob("left", 3)], RunState.RUNNING)
    assert play(run, RunRetried())[0] == run
    assert play(run, ended("left", JobState.FAILED, 3))[1] == [SubmitJob("left", 4)]
    run, commands = play(run, ended("left", JobState.SUCCEEDED, 3))
    assert commands == [SubmitJob("end", 1)]


def test_a_failed_task_that_is_marked_lets_its_run_go_on() -> None:
    run, _ = play(new_run(plan(DIAMOND)), RunAdmitted(), ended("top"), ended("left", JobState.FAILED), ended("right"))
    assert (run.state, states(run)["end"]) == (RunState.FAILED, "upstream_failed")
    run, commands = play(run, TaskMarked("left", TaskState.SKIPPED, "by ann"))
    assert (commands, run.state, states(run)["left"]) == ([], RunState.WAITING, "skipped")
    run, commands = play(run, RunAdmitted())
    assert (commands, run.state) == ([SubmitJob("end", 1)], RunState.RUNNING)
    assert play(run, TaskMarked("left", TaskState.SKIPPED, "by ann"))[0] == run


def test_a_waiting_task_that_is_marked_lets_nothing_pass_before_those_upstream() -> None:
    upstream = {"a": [], "b": ["a"], "c": ["b"]}
    run, commands = play(new_run(plan(upstream, fail_fast=False)), RunAdmitted(), TaskMarked("b", TaskState.SUCCEEDED))
    assert (commands, states(run)["b"]) == ([], "succeeded")
    assert play(run, ended("a"))[1] == [SubmitJob("c", 1)]
    assert states(play(run, ended("a", JobState.FAILED))[0]) == {
        "a": "failed",
        "b": "succeeded",
        "c": "upstream_failed",
    }


def test_only_failed_tasks_and_those_without_a_job_may_be_marked() -> None:
    run, _ = play(new_run(plan(DIAMOND)), RunAdmitted())
    assert [can_mark(run, name) for name in ("top", "end")] == [False, True]
    assert play(run, TaskMarked("top", TaskState.SKIPPED))[0] is run
    assert play(run, TaskMarked("end", TaskState.FAILED))[0] is run
    assert not can_mark(play(run, RunStopped())[0], "end")


def test_a_job_that_was_suspended_waits_again_and_a_late_word_changes_nothing() -> None:
    run, _ = play(new_run(plan({"a": []})), RunAdmitted(), JobChanged("a", 1, JobState.SUSPENDED))
    assert states(run) == {"a": "suspended"}
    run, _ = play(run, JobChanged("a", 1, JobState.WAITING), JobChanged("a", 1, JobState.RUNNING))
    assert play(run, JobChanged("a", 1, JobState.WAITING))[0] is run
    assert play(run, JobChanged("nobody", 1, JobState.FAILED))[0] is run


def test_a_thousand_tasks_deep_and_wide_come_to_their_end() -> None:
    names = [f"t{number}" for number in range(1000)]
    for upstream in ({n: names[i - 1 : i] for i, n in enumerate(names)}, {n: [] for n in names}):
        run, commands = play(new_run(plan(upstream)), RunAdmitted())
        submitted = 0
        while run.active:
            submitted += len(run.active)
            run, commands = advance(run, *map(ended, run.active))
        assert submitted == 1000
        assert list(commands) == [FinishRun(RunState.SUCCEEDED)]


def test_one_step_starts_no_more_tasks_than_the_most_and_says_that_there_are_more() -> None:
    names = [f"t{number}" for number in range(2 * MOST_STARTED + 2)]
    rules = plan({name: [] for name in names}, parallelism=2 * MOST_STARTED + 1)
    run, steps = new_run(rules), []
    for event in (RunAdmitted(), StartMore(), StartMore()):
        run, commands = advance(run, event)
        steps.append(commands)
    submitted = [SubmitJob(name, 1) for name in names]
    assert steps == [
        (*submitted[:MOST_STARTED], StartMore()),
        (*submitted[MOST_STARTED : 2 * MOST_STARTED], StartMore()),
        (submitted[2 * MOST_STARTED],),
    ]
    assert advance(run, StartMore()) == (run, ())
    assert states(run)[names[-1]] == "waiting"


def test_the_plan_of_a_flow_has_its_settings() -> None:
    catalogue = Catalogue(read_templates(case("support-job-templates.json"), site()).values())
    flow = read_document(case("case3-distributed-gpu-notations.json"), catalogue, site())["llm-sft"].flow
    whole = plan_run(flow, lambda template: template == "logical")
    assert (whole.retries, whole.logical, whole.parallelism) == ({"fetch-corpus": 3}, {"gate"}, 10)
    alone = plan_run(flow, lambda template: False, only="sft-a")
    assert play(new_run(alone), RunAdmitted())[1] == [SubmitJob("sft-a", 1)]


TASKS = [f"t{number}" for number in range(8)]
PLANS = st.builds(
    lambda edges, parallelism, fail_fast, retries, logical, skipped: plan(
        {name: [other for other in TASKS[:index] if other in edges[index]] for index, name in enumerate(TASKS)},
        parallelism=parallelism,
        fail_fast=fail_fast,
        retries=retries,
        logical=logical - skipped,
        skipped=skipped,
    ),
    st.lists(st.sets(st.sampled_from(TASKS), max_size=3), min_size=8, max_size=8),
    st.integers(1, 4),
    st.booleans(),
    st.dictionaries(st.sampled_from(TASKS), st.integers(1, 2), max_size=4),
    st.frozensets(st.sampled_from(TASKS), max_size=2),
    st.frozensets(st.sampled_from(TASKS), max_size=2),
)
EVENTS = st.one_of(
    st.builds(
        JobChanged,
        st.sampled_from(TASKS),
        st.integers(0, 4),
        st.sampled_from(JobState),
        st.just(""),
        st.booleans(),
        st.booleans(),
    ),
    st.builds(TaskMarked, st.sampled_from(TASKS), st.sampled_from(TaskState)),
    st.just(RunStopped()),
    st.just(RunRetried()),
    st.just(RunAdmitted()),
    st.just(StartMore()),
)
ENDINGS = st.sampled_from([JobState.SUCCEEDED, JobState.SUCCEEDED, JobState.FAILED, JobState.STOPPED])


def hold(before: Run, after: Run, commands: tuple[RunCommand, ...]) -> None:
    """What is so after every step."""
    rules, tasks = after.plan, after.tasks
    assert len(after.active) <= rules.parallelism
    for command in commands:
        if isinstance(command, SubmitJob):
            assert tasks[command.task].active
            assert tasks[command.task].attempt == command.attempt == before.tasks[command.task].attempt + 1
            assert not before.tasks[command.task].state.done
            assert all(tasks[name].state.done for name in rules.dag.ancestors(command.task))
            assert command.task not in rules.logical | rules.skipped
    finishing = [command for command in commands if isinstance(command, FinishRun)]
    assert len(finishing) == (after.state.final and not before.state.final)
    assert all(not task.state.done for name, task in tasks.items() if task.active)
    if after.state is not RunState.STOPPED and after.state.final:
        assert not after.active
    if after.state.final:
        assert all(task.state.done or task.state.lost for task in tasks.values())
        assert (after.state is RunState.SUCCEEDED) == all(task.state.done for task in tasks.values())
    if after.state is RunState.RUNNING:
        assert after.active


@given(PLANS, st.lists(EVENTS, max_size=25))
def test_invariants_hold_after_any_events_and_events_are_idempotent(rules: RunPlan, events: list[RunEvent]) -> None:
    run = new_run(rules)
    for event in [RunAdmitted(), *events]:
        before = run
        run, commands = advance(before, event)
        hold(before, run, commands)
        if not isinstance(event, RunRetried | RunStopped) or not before.state.final:
            again, nothing = advance(run, event)
            assert (again, nothing) == (run, ())


@given(PLANS, st.data())
def test_every_run_ends_after_so_many_jobs_as_its_tasks_and_retries(rules: RunPlan, data: st.DataObject) -> None:
    run, commands = advance(new_run(rules), RunAdmitted())
    hold(new_run(rules), run, commands)
    jobs = 0
    while not run.state.final:
        before = run
        task = data.draw(st.sampled_from(run.active))
        jobs += 1
        assert jobs <= len(TASKS) + sum(rules.retries.values())
        run, commands = advance(run, JobChanged(task, run.tasks[task].attempt, data.draw(ENDINGS)))
        hold(before, run, commands)
    assert all(task.attempt <= 1 + rules.retries.get(name, 0) for name, task in run.tasks.items())


class RunWithJobs(RuleBasedStateMachine):
    """A run, the jobs of its attempts, and what tells each of them about the other, in any order."""

    run: Run
    jobs: dict[tuple[str, int], JobState]
    ending: set[tuple[str, int]]
    """Jobs that have ended, of which something may still run."""
    signals: set[tuple[str, int]]
    stops: set[tuple[str, int]]

    @initialize(rules=PLANS)
    def begin(self, rules: RunPlan) -> None:
        self.run, self.jobs, self.ending, self.signals, self.stops = new_run(rules), {}, set(), set(), set()
        self.tell(RunAdmitted())

    @rule(event=st.sampled_from([RunStopped(), RunRetried(), RunAdmitted()]))
    def tell(self, event: RunEvent) -> None:
        self.run, commands = advance(self.run, event)
        for command in commands:
            if isinstance(command, SubmitJob):
                self.submit(command)
            if isinstance(command, StopJob):
                self.stops.add((command.task, command.attempt))

    def submit(self, command: SubmitJob) -> None:
        earlier = {key: state for key, state in self.jobs.items() if key[0] == command.task}
        assert JobState.SUCCEEDED not in earlier.values()
        assert all(state.final for state in earlier.values())
        assert not any(state is JobState.STOPPED and key in self.ending for key, state in earlier.items())
        self.jobs[command.task, command.attempt] = JobState.WAITING

    @rule(data=st.data(), state=st.sampled_from([TaskState.SUCCEEDED, TaskState.SKIPPED]))
    def mark(self, data: st.DataObject, state: TaskState) -> None:
        self.tell(TaskMarked(data.draw(st.sampled_from(TASKS)), state))

    def living(self) -> list[tuple[str, int]]:
        return [key for key, state in self.jobs.items() if not state.final]

    @precondition(living)
    @rule(
        data=st.data(),
        state=st.sampled_from([JobState.RUNNING, JobState.SUCCEEDED, JobState.FAILED]),
        ending=st.booleans(),
    )
    def change_job(self, data: st.DataObject, state: JobState, ending: bool) -> None:
        self.change(data.draw(st.sampled_from(self.living())), state, ending)

    def change(self, key: tuple[str, int], state: JobState, ending: bool) -> None:
        self.jobs[key] = state
        self.signals.add(key)
        if state.final and ending:
            self.ending.add(key)

    @precondition(lambda self: self.stops)
    @rule(data=st.data(), ending=st.booleans())
    def stop_job(self, data: st.DataObject, ending: bool) -> None:
        key = data.draw(st.sampled_from(sorted(self.stops)))
        self.stops.remove(key)
        if not self.jobs[key].final:
            self.change(key, JobState.STOPPED, ending)

    @precondition(lambda self: self.ending)
    @rule(data=st.data())
    def clean_up(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.ending)))
        self.ending.remove(key)
        if self.jobs[key] is JobState.STOPPED:
            self.signals.add(key)

    @precondition(lambda self: self.signals)
    @rule(data=st.data())
    def apply_signal(self, data: st.DataObject) -> None:
        self.apply(data.draw(st.sampled_from(sorted(self.signals))))

    def apply(self, key: tuple[str, int]) -> None:
        self.signals.remove(key)
        self.tell(JobChanged(*key, self.jobs[key], ending=key in self.ending))

    def teardown(self) -> None:
        """Once all is told, nothing of the run is left to wait for."""
        if not hasattr(self, "run"):
            return
        while self.living() or self.ending or self.signals or self.run.state is RunState.WAITING:
            self.tell(RunAdmitted())
            for key in self.living():
                self.change(key, JobState.SUCCEEDED, ending=False)
            self.signals |= {key for key in self.ending if self.jobs[key] is JobState.STOPPED}
            self.ending.clear()
            for key in sorted(self.signals):
                self.apply(key)
        assert self.run.state.final
        assert not self.run.active
        assert all(
            self.run.tasks[task].state.done for (task, _), state in self.jobs.items() if state is JobState.SUCCEEDED
        )


TestRunWithJobs = RunWithJobs.TestCase


def test_there_is_no_other_event() -> None:
    with pytest.raises(TypeError):
        advance(new_run(plan({"a": []})), "event")  # type: ignore[arg-type]
