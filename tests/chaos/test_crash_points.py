"""Crashes at every failpoint: a process that ends exactly there costs time, and no job."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from pipeline_core.common.failpoints import Point
from pipeline_core.stages.names import STAGES, Stage
from tests.chaos.world import GATES, STRAIGHT, SUSPENDED, World, a_world
from tests.installation import Installation
from tests.waiting import QUIET_SECONDS, wait_for

STAGE_POINTS = (Point.STAGE_CLAIMED, Point.STAGE_ANSWERED, Point.STAGE_FINISHING, Point.STAGE_FINISHED)
PARKING_POINTS = (Point.CHAIN_PARKING, Point.CHAIN_PARKED)


@dataclass(frozen=True)
class Case:
    """A job to which something happens: `exit` ends the process, `kill` its whole group."""

    name: str
    fault: str
    suspended: bool = False


def _named(point: Point, *labels: str, action: str = "exit", suspended: bool = False) -> Case:
    name = "-".join([point.replace(".", "-"), *(label.replace(".", "-") for label in labels), action])
    return Case(name, "@".join([point, *labels, name]) + f":{action}", suspended)


BY_JOB = [
    *(_named(point, stage) for stage in STAGES for point in STAGE_POINTS),
    *(_named(Point.STAGE_CARRIED, stage) for stage in STAGES[1:]),
    _named(Point.STAGE_CARRIED, Stage.BIND, action="kill"),
    *(_named(point, GATES[0]) for point in (Point.GATE_ANSWERED,)),
    _named(Point.GATE_ANSWERED, GATES[1]),
    _named(Point.GATE_WRITTEN),
    *(_named(point, suspended=True) for point in PARKING_POINTS),
    *(_named(point, stage, action="kill") for point, stage in zip(STAGE_POINTS, STAGES[2:], strict=True)),
    _named(Point.STAGE_FINISHED, Stage.GATES, action="raise"),
]
"""Each of these happens to a job of its own."""

BY_PROCESS = [
    *(f"{Point.STAGE_SENT}@{stage}:exit" for stage in STAGES),
    f"{Point.CHAIN_TAKEN}:kill",
    f"{Point.WAKEUPS_NOTED}@{Stage.TRANSLATE}:exit",
    f"{Point.WAKEUPS_NOTED}@{Stage.GATES}:kill",
    f"{Point.WAKEUPS_GATHERED}@{Stage.TRANSLATE}:kill",
    f"{Point.WAKEUPS_GATHERED}@DeliveriesDue:exit:3",
    f"{Point.WAKEUPS_NOTED}@DeliveriesDue:exit:3",
    f"{Point.WAKEUPS_NOTED}@CleanupDue:exit:2",
    *(
        f"{point}@{state}:exit"
        for point in (Point.HOOK_CLAIMED, Point.HOOK_ANSWERED, Point.HOOK_FINISHING, Point.HOOK_FINISHED)
        for state in ("waiting", "running", "succeeded")
    ),
    f"{Point.HOOK_ANSWERED}@suspended:kill",
    f"{Point.TICK_FOUND}@steps:exit:2",
    f"{Point.TICK_FOUND}@deliveries:exit:2",
    f"{Point.CLUSTER_OBSERVED}:exit:3",
    f"{Point.CLUSTER_CLEARED}:exit:2",
]
"""These happen to any job."""


def one_step_at_a_time(service: Installation) -> None:
    """Let each stage worker run one step at a time, so that a failure ends the process of its case alone.

    What becomes of many beside it is tested in `test_killed_workers`.
    """
    for name in ("stages1", "stages2"):
        argv = list(service.services[name].argv)
        argv[argv.index("-c") + 1] = "1"
        service.services[name] = replace(service.services[name], argv=argv)


@pytest.fixture(scope="module")
def ended(
    tmp_path_factory: pytest.TempPathFactory, postgres_url: str, migrated_database: str, redis_url: str
) -> Iterator[World]:
    """All cases in one installation, at their ends."""
    with a_world(
        tmp_path_factory.mktemp("crashes"),
        postgres_url,
        migrated_database,
        redis_url,
        prepare=one_step_at_a_time,
        PIPELINE_FAILPOINT=",".join([*(case.fault for case in BY_JOB), *BY_PROCESS]),
    ) as world:
        world.service.start("stages1", "stages2", "hooks1", "housekeeping", "beat", "watcher")
        for case in BY_JOB:
            world.submit(case.name, park=case.suspended)
        for case in BY_JOB:
            if case.suspended:
                happened(world, case.fault)
                world.resume_when_suspended(case.name)
        world.wait_ended()
        yield world


@pytest.mark.parametrize("case", BY_JOB, ids=[case.name for case in BY_JOB])
def test_a_process_that_ends_there_costs_no_job_and_doubles_nothing(ended: World, case: Case) -> None:
    happened(ended, case.fault, quiet=1)
    ended.check(case.name, SUSPENDED if case.suspended else STRAIGHT)


@pytest.mark.parametrize("fault", BY_PROCESS)
def test_each_failure_happened_and_all_jobs_ended_well(ended: World, fault: str) -> None:
    happened(ended, fault, quiet=1)
    assert set(ended.states().values()) == {"succeeded"}


def happened(world: World, fault: str, *, quiet: float = QUIET_SECONDS) -> None:
    """The fault happens as often as it was to."""
    point, _, rest = fault.partition(":")
    times = int(rest.partition(":")[2] or 1)
    faults = world.service.faults
    wait_for(
        lambda: len(list(faults.glob(f"{point}#*"))) == times,
        f"{fault} to happen",
        progress=world.progress,
        quiet=quiet,
    )
