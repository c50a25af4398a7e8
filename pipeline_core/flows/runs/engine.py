"""A run as a state machine: what has happened goes in, the new state and what is to be done come out.

No I/O. The state and the commands are written down together by the caller, who carries the commands out afterwards and may
do so again: a task's attempt is submitted and stopped by its number. An event that was taken in already changes nothing.
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
    """What stays the same during a run. Tasks are in an order in which each follows those upstream.

    `retries` are the retries of each task after its first attempt; `logical` tasks have no job; `skipped` ones do not run.
    """

    dag: Dag
    parallelism: int = 10
    fail_fast: bool = True
    retries: Mapping[str, int] = field(default_factory=dict)
    logical: frozenset[str] = frozenset()
    skipped: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskRun:
    """A task in a run. `attempt` counts jobs from 1 and is 0 before the first; `active` is whether one is under way;
    `retries_left` counts the retries that remain."""

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
        """The tasks with a job under way."""
        return [name for name, task in self.tasks.items() if task.active]


@dataclass(frozen=True, slots=True)
class RunStarted:
    """The run may begin."""


@dataclass(frozen=True, slots=True)
class JobChanged:
    """The job of a task's attempt is in that state. With `non_retryable` a failure is not retried."""

    task: str
    attempt: int
    state: JobState
    reason: str = ""
    non_retryable: bool = False


@dataclass(frozen=True, slots=True)
class TaskMarked:
    """A person says that a failed or waiting task counts as succeeded or skipped."""

    task: str
    state: TaskState
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RunStopped:
    """A person, or a newer run, stops the run."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class RunRetried:
    """A person has failed and stopped tasks, and what follows them, tried again in a run that has ended."""


@dataclass(frozen=True, slots=True)
class SubmitJob:
    """SubmitJob the job of this attempt of a task."""

    task: str
    attempt: int


@dataclass(frozen=True, slots=True)
class StopJob:
    """Stop the job of this attempt of a task."""

    task: str
    attempt: int


@dataclass(frozen=True, slots=True)
class FinishRun:
    """The run has ended so."""

    state: RunState
    reason: str = ""


RunEvent = RunStarted | JobChanged | TaskMarked | RunStopped | RunRetried
RunCommand = SubmitJob | StopJob | FinishRun
AdvanceResult = tuple[Run, tuple[RunCommand, ...]]

FAIL_FAST = "not started, as another task failed"
"""Why tasks of a run with `fail_fast` are `stopped` though nobody stopped them."""

_ENDED_BADLY = (TaskState.FAILED, TaskState.STOPPED)
_DONE = tuple(state for state in TaskState if state.done)
_LOST = tuple(state for state in TaskState if state.lost)
_SEEN = {
    JobState.WAITING: TaskState.WAITING,
    JobState.SUSPENDED: TaskState.SUSPENDED,
    JobState.RUNNING: TaskState.RUNNING,
    JobState.SUCCEEDED: TaskState.SUCCEEDED,
    JobState.FAILED: TaskState.FAILED,
    JobState.STOPPED: TaskState.STOPPED,
}


def plan_run(flow: Flow, is_logical: Callable[[str], bool], only: str | None = None) -> RunPlan:
    """The plan of a run of the flow, or of its task `only` alone, which is then not skipped.

    `is_logical` says of a template's name whether it runs nothing.
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


def begin(plan: RunPlan) -> Run:
    """The run before it has started."""
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
    """The run after the events, which are taken in together, and what is to be done.

    An event that says nothing new changes nothing.
    """
    changed = run
    commands: list[RunCommand] = []
    for event in events:
        changed, further = _take(event, changed)
        commands += further
    if changed is run:
        return run, ()
    settled, last = _settle(changed)
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
def _take(event: RunEvent, run: Run) -> AdvanceResult:
    """The run as the event itself changes it; the same object when it changes nothing."""
    raise TypeError(f"{type(event).__name__} is no event of a run")


@_take.register
def _(event: RunStarted, run: Run) -> AdvanceResult:
    return (
        (replace(run, state=RunState.RUNNING), ()) if run.state in (RunState.WAITING, RunState.BLOCKED) else (run, ())
    )


@_take.register
def _(event: JobChanged, run: Run) -> AdvanceResult:
    task = run.tasks.get(event.task)
    if task is None or not task.active or task.attempt != event.attempt:
        return run, ()
    if event.state is JobState.FAILED and task.retries_left and not event.non_retryable and not _halted(run):
        again = TaskRun(attempt=task.attempt + 1, active=True, retries_left=task.retries_left - 1, reason=event.reason)
        return _with(run, {event.task: again}), (SubmitJob(event.task, again.attempt),)
    seen = replace(task, state=_SEEN[event.state], active=not event.state.final, reason=event.reason)
    # A job that was resumed waits again; otherwise what comes late and out of order tells nothing.
    late = task.state is TaskState.RUNNING and seen.state in (TaskState.WAITING, TaskState.SUSPENDED)
    return (run, ()) if seen == task or late else (_with(run, {event.task: seen}), ())


@_take.register
def _(event: TaskMarked, run: Run) -> AdvanceResult:
    if event.task not in run.tasks or not event.state.done or not can_mark(run, event.task):
        return run, ()
    marked = _with(run, {event.task: replace(run.tasks[event.task], state=event.state, reason=event.reason)})
    if run.state is not RunState.FAILED:
        return marked, ()
    # What the failure had ended goes on, unless other failures still hold it up.
    waiting = {name: replace(task, state=TaskState.WAITING) for name, task in marked.tasks.items() if _given_up(task)}
    return replace(_with(marked, waiting), state=RunState.RUNNING, reason=""), ()


@_take.register
def _(event: RunStopped, run: Run) -> AdvanceResult:
    if run.state.final:
        return run, ()
    commands = [StopJob(name, run.tasks[name].attempt) for name in run.active]
    ended = {
        name: replace(task, state=TaskState.STOPPED, active=False, reason=event.reason)
        for name, task in run.tasks.items()
        if task.active or task.state is TaskState.WAITING
    }
    stopped = replace(_with(run, ended), state=RunState.STOPPED, reason=event.reason)
    return stopped, (*commands, FinishRun(RunState.STOPPED, event.reason))


@_take.register
def _(event: RunRetried, run: Run) -> AdvanceResult:
    if not can_retry(run):
        return run, ()
    again = {
        name: TaskRun(attempt=task.attempt, retries_left=run.plan.retries.get(name, 0))
        for name, task in run.tasks.items()
        if task.state.lost
    }
    return replace(_with(run, again), state=RunState.RUNNING, reason=""), ()


def _settle(run: Run) -> AdvanceResult:
    """Give up what cannot start any more, start what can, and end the run when nothing is left to be done."""
    if run.state is not RunState.RUNNING:
        return run, ()
    run, ready = _passed_on(run)
    commands: list[RunCommand] = []
    if not _halted(run):
        starting = ready[: max(0, run.plan.parallelism - len(run.active))]
        begun = {name: _started(run.tasks[name]) for name in starting}
        commands = [SubmitJob(name, task.attempt) for name, task in begun.items()]
        run = _with(run, begun)
    if run.active:
        return run, tuple(commands)
    left = {
        name: replace(task, state=TaskState.STOPPED, reason=FAIL_FAST)
        for name, task in run.tasks.items()
        if task.state is TaskState.WAITING
    }
    failed = [(name, task) for name, task in run.tasks.items() if task.state in _ENDED_BADLY]
    reason = f"task {failed[0][0]}: {failed[0][1].reason or failed[0][1].state}" if failed else ""
    state = RunState.FAILED if failed else RunState.SUCCEEDED
    return replace(_with(run, left), state=state, reason=reason), (*commands, FinishRun(state, reason))


def _passed_on(run: Run) -> tuple[Run, list[str]]:
    """One pass in the order of the DAG: what is given up, what logical tasks let pass, and which tasks may start."""
    changed: dict[str, TaskRun] = {}
    cleared: set[str] = set()
    lost: set[str] = set()
    ready: list[str] = []
    for name, before in run.plan.dag.upstream.items():
        task = run.tasks[name]
        # A skipped or marked task lets nothing pass before those upstream of it are done.
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
        if cause or task.state in _LOST:
            lost.add(name)
    return _with(run, changed), ready


def _started(task: TaskRun) -> TaskRun:
    return replace(task, attempt=task.attempt + 1, active=True, reason="")


def _halted(run: Run) -> bool:
    """Whether no further task may start, as one has failed."""
    return run.plan.fail_fast and any(task.state in _ENDED_BADLY for task in run.tasks.values())


def _given_up(task: TaskRun) -> bool:
    """Whether a task never started because another one failed."""
    return task.state is TaskState.UPSTREAM_FAILED or (task.state is TaskState.STOPPED and task.reason == FAIL_FAST)


def _with(run: Run, tasks: Mapping[str, TaskRun]) -> Run:
    return replace(run, tasks={**run.tasks, **tasks}) if tasks else run
