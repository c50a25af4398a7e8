"""The pure state machine of runs: `advance` takes a run and events, and gives the new run and commands.

No I/O. The caller writes the new state and the commands in one transaction and carries the commands out afterwards, perhaps
more than once: each names an attempt of a task by its number. An event that was applied before changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import singledispatch

from pipeline_core.flows.definition.flow import Flow
from pipeline_core.flows.notation.dag import Dag
from pipeline_core.flows.states import RunState, TaskState
from pipeline_core.states import JobState


@dataclass(frozen=True, kw_only=True, slots=True)
class RunPlan:
    """What never changes during a run. Tasks are in topological order.

    `retries` counts, for some tasks, the attempts after the first; `logical` tasks have no job; `skipped` tasks do not run.
    """

    dag: Dag
    parallelism: int = 10
    fail_fast: bool = True
    retries: Mapping[str, int] = field(default_factory=dict)
    logical: frozenset[str] = frozenset()
    skipped: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskRun:
    """A task in a run. `attempt` counts jobs from 1 and is 0 before the first; `active`: its job has not ended;
    `retries_left` counts the retries that remain.

    A task that is stopped and active was stopped with its run, and its job is still ending. Once that has ended, the task runs
    again if the run was retried meanwhile.
    """

    state: TaskState = TaskState.WAITING
    attempt: int = 0
    active: bool = False
    retries_left: int = 0
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """The state of a run."""

    plan: RunPlan
    tasks: Mapping[str, TaskRun]
    state: RunState = RunState.WAITING
    reason: str = ""

    @property
    def active(self) -> list[str]:
        """The tasks with a job that has not ended."""
        return [name for name, task in self.tasks.items() if task.active]


@dataclass(frozen=True, slots=True)
class RunAdmitted:
    """The run was admitted."""


@dataclass(frozen=True, slots=True)
class JobChanged:
    """The job of a task's attempt is in that state. With `non_retryable` a failure is not retried. `ending`: something of the
    job may still run in its cluster."""

    task: str
    attempt: int
    state: JobState
    reason: str = ""
    non_retryable: bool = False
    ending: bool = False


@dataclass(frozen=True, slots=True)
class TaskMarked:
    """A person marks a failed or waiting task as succeeded or skipped. A run that has failed waits to be admitted again."""

    task: str
    state: TaskState
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RunStopped:
    """A person, or a newer run, stops the run."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class RunRetried:
    """A person retries a run that has ended: its failed and stopped tasks, and those that follow them, run again as soon as the
    run is admitted; a task whose stopped job is still ending, as soon as that has ended."""


@dataclass(frozen=True, slots=True)
class SubmitJob:
    """Submit the job of this attempt of a task."""

    task: str
    attempt: int


@dataclass(frozen=True, slots=True)
class StopJob:
    """Stop the job of this attempt of a task."""

    task: str
    attempt: int


@dataclass(frozen=True, slots=True)
class StartMore:
    """More tasks may start than one step starts: as a command, that this event is to be applied to the run."""


@dataclass(frozen=True, slots=True)
class FinishRun:
    """The run has ended in this state."""

    state: RunState
    reason: str = ""


RunEvent = RunAdmitted | JobChanged | TaskMarked | RunStopped | RunRetried | StartMore
RunCommand = SubmitJob | StopJob | FinishRun | StartMore
AdvanceResult = tuple[Run, tuple[RunCommand, ...]]
"""The new run, and the commands to carry out."""

MOST_STARTED = 500
"""Tasks that one step starts at most, so that no transaction is as large as the largest flow."""

FAIL_FAST = "not started, as another task failed"
"""The reason of tasks that are `stopped` by `fail_fast`, not by a person."""

STILL_ENDING = "runs again as soon as its stopped job has ended"
"""The reason of tasks of a retried run that are still `stopped`."""

_FAILED_OR_STOPPED = (TaskState.FAILED, TaskState.STOPPED)
_DONE = tuple(state for state in TaskState if state.done)
_LOST = tuple(state for state in TaskState if state.lost)
_STATE_BY_JOB = {
    JobState.WAITING: TaskState.WAITING,
    JobState.SUSPENDED: TaskState.SUSPENDED,
    JobState.RUNNING: TaskState.RUNNING,
    JobState.SUCCEEDED: TaskState.SUCCEEDED,
    JobState.FAILED: TaskState.FAILED,
    JobState.STOPPED: TaskState.STOPPED,
}


def plan_run(flow: Flow, is_logical: Callable[[str], bool], only: str | None = None) -> RunPlan:
    """The plan of a run of the flow, or of its task `only` alone, which then runs even if it is to be skipped.

    `is_logical` says whether the template of a name runs nothing.
    """
    tasks = flow.tasks.values() if only is None else [flow.tasks[only]]
    return RunPlan(
        dag=flow.dag if only is None else Dag({only: ()}),
        parallelism=flow.parallelism,
        fail_fast=flow.fail_fast,
        retries={task.key: task.retry for task in tasks if task.retry},
        logical=frozenset(task.key for task in tasks if is_logical(task.template)),
        skipped=frozenset(task.key for task in tasks if task.skip and only is None),
    )


def new_run(plan: RunPlan) -> Run:
    """A run that has not started."""
    return Run(
        plan=plan,
        tasks={
            name: TaskRun(
                state=TaskState.SKIPPED if name in plan.skipped else TaskState.WAITING,
                retries_left=plan.retries.get(name, 0),
            )
            for name in plan.dag
        },
    )


def advance(run: Run, *events: RunEvent) -> AdvanceResult:
    """Apply events to a run; the new run, which is the same object if nothing has changed, and the commands that follow."""
    changed = run
    commands: list[RunCommand] = []
    for event in events:
        changed, further = _apply(event, changed)
        commands += further
    if changed is run and StartMore() not in events:
        return run, ()
    settled, last = _start_ready_tasks(changed)
    return settled, (*commands, *last)


def can_retry(run: Run) -> bool:
    """Whether RunRetried would change anything."""
    return run.state in (RunState.FAILED, RunState.STOPPED)


def can_mark(run: Run, task: str) -> bool:
    """Whether the task may be marked: it has failed, or waits without a job, in a run that was not stopped or expired."""
    marked = run.tasks[task]
    open_ = run.state in (RunState.WAITING, RunState.BLOCKED, RunState.RUNNING, RunState.FAILED)
    waits = marked.state is TaskState.WAITING and not marked.active
    return open_ and (marked.state is TaskState.FAILED or waits)


@singledispatch
def _apply(event: RunEvent, run: Run) -> AdvanceResult:
    """The run as the event alone changes it; the same object when it changes nothing."""
    raise TypeError(f"{type(event).__name__} is no event of a run")


@_apply.register
def _(event: RunAdmitted, run: Run) -> AdvanceResult:
    return (
        (replace(run, state=RunState.RUNNING), ()) if run.state in (RunState.WAITING, RunState.BLOCKED) else (run, ())
    )


@_apply.register
def _(event: JobChanged, run: Run) -> AdvanceResult:
    task = run.tasks.get(event.task)
    if task is None or not task.active or task.attempt != event.attempt:
        return run, ()
    if task.state is TaskState.STOPPED:
        return _with(run, {event.task: _after_stop(run, task, event)}), ()
    if event.state is JobState.FAILED and task.retries_left and not event.non_retryable and not _halted(run):
        again = TaskRun(attempt=task.attempt + 1, active=True, retries_left=task.retries_left - 1, reason=event.reason)
        return _with(run, {event.task: again}), (SubmitJob(event.task, again.attempt),)
    observed = replace(task, state=_STATE_BY_JOB[event.state], active=not event.state.final, reason=event.reason)
    # A resumed job waits again; apart from that, a running job does not go back, so the event came late.
    late = task.state is TaskState.RUNNING and observed.state in (TaskState.WAITING, TaskState.SUSPENDED)
    return (run, ()) if observed == task or late else (_with(run, {event.task: observed}), ())


@_apply.register
def _(event: TaskMarked, run: Run) -> AdvanceResult:
    if event.task not in run.tasks or not event.state.done or not can_mark(run, event.task):
        return run, ()
    marked = _with(run, {event.task: replace(run.tasks[event.task], state=event.state, reason=event.reason)})
    if run.state is not RunState.FAILED:
        return marked, ()
    # Tasks that the failure had ended wait again; other failures may end them once more.
    waiting = {
        name: replace(task, state=TaskState.WAITING) for name, task in marked.tasks.items() if _never_started(task)
    }
    return replace(_with(marked, waiting), state=RunState.WAITING, reason=""), ()


@_apply.register
def _(event: StartMore, run: Run) -> AdvanceResult:
    return run, ()


@_apply.register
def _(event: RunStopped, run: Run) -> AdvanceResult:
    if run.state.final:
        return run, ()
    commands = [StopJob(name, run.tasks[name].attempt) for name in run.active]
    ended = {
        name: replace(task, state=TaskState.STOPPED, reason=event.reason)
        for name, task in run.tasks.items()
        if task.active or task.state is TaskState.WAITING
    }
    stopped = replace(_with(run, ended), state=RunState.STOPPED, reason=event.reason)
    return stopped, (*commands, FinishRun(RunState.STOPPED, event.reason))


@_apply.register
def _(event: RunRetried, run: Run) -> AdvanceResult:
    if not can_retry(run):
        return run, ()
    again = {
        name: replace(task, reason=STILL_ENDING) if task.active else _again(run, name)
        for name, task in run.tasks.items()
        if task.state.lost
    }
    return replace(_with(run, again), state=RunState.WAITING, reason=""), ()


def _again(run: Run, name: str) -> TaskRun:
    """The task as it waits for its next attempt after a retry of the run."""
    return TaskRun(attempt=run.tasks[name].attempt, retries_left=run.plan.retries.get(name, 0))


def _after_stop(run: Run, task: TaskRun, event: JobChanged) -> TaskRun:
    """A task that was stopped with its run, after its job has changed; the same object while the stopped job is ending.

    A job that ended by itself before it could be stopped counts as it ended, and at once: only a stopped job says again when
    nothing of it is left.
    """
    if not event.state.final or (event.ending and event.state is JobState.STOPPED):
        return task
    if event.state is not JobState.SUCCEEDED and not run.state.final:
        return _again(run, event.task)
    reason = task.reason if event.state is JobState.STOPPED else event.reason
    return replace(task, state=_STATE_BY_JOB[event.state], active=False, reason=reason)


def _start_ready_tasks(run: Run) -> AdvanceResult:
    """Start the tasks that can start, end those that cannot start any more, and end the run when no task is left."""
    if run.state is not RunState.RUNNING:
        return run, ()
    run, ready = _propagate(run)
    commands: list[RunCommand] = []
    if not _halted(run):
        may_start = ready[: max(0, run.plan.parallelism - len(run.active))]
        started = {name: _started(run.tasks[name]) for name in may_start[:MOST_STARTED]}
        commands = [SubmitJob(name, task.attempt) for name, task in started.items()]
        if len(may_start) > MOST_STARTED:
            commands.append(StartMore())
        run = _with(run, started)
    if run.active:
        return run, tuple(commands)
    left = {
        name: replace(task, state=TaskState.STOPPED, reason=FAIL_FAST)
        for name, task in run.tasks.items()
        if task.state is TaskState.WAITING
    }
    failed = [(name, task) for name, task in run.tasks.items() if task.state in _FAILED_OR_STOPPED]
    reason = f"task {failed[0][0]}: {failed[0][1].reason or failed[0][1].state}" if failed else ""
    state = RunState.FAILED if failed else RunState.SUCCEEDED
    return replace(_with(run, left), state=state, reason=reason), (*commands, FinishRun(state, reason))


def _propagate(run: Run) -> tuple[Run, list[str]]:
    """One pass in topological order: tasks become `upstream_failed`, logical tasks succeed; the tasks that may start."""
    changed: dict[str, TaskRun] = {}
    cleared: set[str] = set()
    lost: set[str] = set()
    ready: list[str] = []
    for name, before in run.plan.dag.upstream.items():
        task = run.tasks[name]
        # Tasks after a skipped or marked one may start only when all tasks before it are done.
        cause = next((other for other in before if other in lost), None) if lost else None
        open_ = cleared.issuperset(before)
        if not task.active and task.state in (TaskState.WAITING, TaskState.UPSTREAM_FAILED):
            state = TaskState.UPSTREAM_FAILED if cause else TaskState.WAITING
            if state is TaskState.WAITING and open_ and name in run.plan.logical and not _halted(run):
                state = TaskState.SUCCEEDED
            if state is not task.state:
                task = changed[name] = replace(task, state=state, reason=f"because of {cause}" if cause else "")
            if state is TaskState.WAITING and open_:
                ready.append(name)
        if open_ and task.state in _DONE:
            cleared.add(name)
        if cause or (task.state in _LOST and not task.active):
            lost.add(name)
    return _with(run, changed), ready


def _started(task: TaskRun) -> TaskRun:
    return replace(task, attempt=task.attempt + 1, active=True, reason="")


def _halted(run: Run) -> bool:
    """Whether no further task may start, as one has failed."""
    return run.plan.fail_fast and any(
        task.state in _FAILED_OR_STOPPED and not task.active for task in run.tasks.values()
    )


def _never_started(task: TaskRun) -> bool:
    """Whether a task never started because another one failed."""
    return task.state is TaskState.UPSTREAM_FAILED or (task.state is TaskState.STOPPED and task.reason == FAIL_FAST)


def _with(run: Run, tasks: Mapping[str, TaskRun]) -> Run:
    changed = any(task is not run.tasks[name] for name, task in tasks.items())
    return replace(run, tasks={**run.tasks, **tasks}) if changed else run
