"""The names of queues and tasks, the modules of tasks, and how often beat sends each tick."""

from __future__ import annotations

from collections.abc import Iterable

from pipeline_core.stages.names import STAGES, Stage

HOOKS = "hooks"
FLOWS = "flows"
TICKS = "ticks"
SHADOWS = "shadows"
"""Queue probes only: what shadows are to be asked is not in messages (`pipeline_core.plugins.shadow_queue`)."""

DELIVER = "hook.deliver"
ADVANCE_RUN = "flow.advance"
ADMIT_RUNS = "flow.admit"
HELP_SCHEDULES = "flow.help"
CLEAN_UP_JOB = "tick.clean"
QUEUE_PROBE = "queue.probe"
SEND_QUEUE_PROBES = "tick.queue-probes"

TICK_SECONDS = {
    "tick.steps": 1.0,
    "tick.deliveries": 1.0,
    "tick.suspensions": 1.0,
    "tick.retries": 1.0,
    "tick.flows": 1.0,
    "tick.admissions": 10.0,
    "tick.schedule": 1.0,
    "tick.backfills": 1.0,
    "tick.give-up": 10.0,
    "tick.reconcile": 5.0,
    "tick.cleanup": 5.0,
    SEND_QUEUE_PROBES: 15.0,
    "tick.retention": 10.0,
}
"""The interval of each tick, in seconds."""


def tick_name(name: str) -> str:
    """The task of a tick."""
    return f"tick.{name}"


def stage_queue(stage: Stage) -> str:
    """The queue of a stage's tasks: one for each stage, so that each can be scaled by itself."""
    return f"stages.{stage}"


def stage_task(stage: Stage) -> str:
    """The name of a stage's task."""
    return f"stage.{stage}"


def stage_queues() -> list[str]:
    """The queues of all stages."""
    return [stage_queue(stage) for stage in STAGES]


def queues() -> list[str]:
    """The names of all queues."""
    return [*stage_queues(), HOOKS, FLOWS, TICKS, SHADOWS]


def task_modules(queues: Iterable[str]) -> list[str]:
    """The modules that a process which serves these queues loads. One that serves none, beat, sends messages without them."""
    modules = {stage_queue(stage): "stages" for stage in STAGES} | {HOOKS: "hooks", FLOWS: "flows", TICKS: "ticks"}
    served = list(queues)
    tasks = sorted({modules[queue] for queue in served if queue in modules})
    return ["workers.signals", *(f"workers.tasks.{name}" for name in [*tasks, *(["probes"] if served else [])])]
