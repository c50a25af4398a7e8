"""Workers killed in the middle of their work, and jobs that kill their workers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pipeline_core.common.failpoints import Point
from pipeline_core.stages.names import Stage
from tests.chaos.world import World, a_world
from tests.waiting import HANG_SECONDS, wait_for

POISONED = (Stage.FACTORS, Stage.LAUNCH)
CROWD = 64
IN_FLIGHT = 32
COMPANY = 12
PATHS = ("/translator", "/priority", "/first", "/decorator", "/binder")


@pytest.fixture(scope="module")
def world(
    tmp_path_factory: pytest.TempPathFactory, postgres_url: str, migrated_database: str, redis_url: str
) -> Iterator[World]:
    with a_world(
        tmp_path_factory.mktemp("killed"),
        postgres_url,
        migrated_database,
        redis_url,
        PIPELINE_FAILPOINT=",".join(f"{Point.STAGE_ANSWERED}@{stage}@poison-{stage}:exit:1000" for stage in POISONED),
        PIPELINE_MAX_CLAIMS="3",
    ) as world:
        world.service.start("stages1", "stages2", "hooks1", "housekeeping", "beat", "watcher")
        yield world


def test_a_worker_killed_during_plugin_calls_costs_a_lease_and_no_job(world: World) -> None:
    answer = threading.Event()
    asked = {path: threading.Event() for path in PATHS}
    plugins = dict(world.plugins.plugins)

    def slow(path: str) -> Any:
        def plugin(packet: dict[str, Any]) -> Any:
            if packet["header"]["jobName"] == f"slow{path.replace('/', '-')}":
                asked[path].set()
                answer.wait(HANG_SECONDS)
            return plugins[path](packet)

        return plugin

    for path in PATHS:
        world.plugins.plugins[path] = slow(path)
    names = [f"slow{path.replace('/', '-')}" for path in PATHS]
    for name in names:
        world.submit(name)
    for path in PATHS:
        assert asked[path].wait(HANG_SECONDS), path
    for worker in ("stages1", "stages2"):
        world.service.kill(worker)
    answer.set()
    world.plugins.plugins.update(plugins)
    world.service.start("stages1", "stages2")
    world.wait_ended(*names)
    for name in names:
        world.check(name)


def test_a_worker_killed_with_many_calls_in_flight_costs_a_lease_and_no_job(world: World) -> None:
    answer = threading.Event()
    plugins = dict(world.plugins.plugins)
    names = [f"crowd-{number}" for number in range(CROWD)]
    waiting: set[str] = set()

    def slow(path: str) -> Any:
        def plugin(packet: dict[str, Any]) -> Any:
            waiting.add(packet["header"]["jobName"])
            answer.wait(HANG_SECONDS)
            return plugins[path](packet)

        return plugin

    world.service.kill("stages2")
    for path in PATHS:
        world.plugins.plugins[path] = slow(path)
    for name in names:
        world.submit(name)
    wait_for(lambda: len(waiting) >= IN_FLIGHT, "the calls", progress=lambda: len(waiting))
    world.service.kill("stages1")
    answer.set()
    world.plugins.plugins.update(plugins)
    world.service.start("stages1", "stages2")
    world.wait_ended(*names)
    for name in names:
        world.check(name)


@pytest.mark.parametrize("stage", POISONED)
def test_a_job_that_kills_its_worker_each_time_fails_and_says_so_while_others_go_on(world: World, stage: Stage) -> None:
    poison = f"poison-{stage}"
    others = [f"beside-{poison}-{number}" for number in range(COMPANY)]
    for name in others[::2]:
        world.submit(name)
    world.submit(poison, seconds=300)
    for name in others[1::2]:
        world.submit(name)
    world.wait_ended(poison, *others)
    for name in others:
        world.check(name)
    ((state, reason),) = world.rows("SELECT state, reason FROM jobs WHERE name = %s", poison)
    assert (state, reason) == ("failed", f"The stage {stage} was begun 3 times and its worker ended each time.")
    assert len(list(world.service.faults.glob(f"*{poison}#*"))) == 3
    world.check_events(poison, ["waiting", "failed"])
    assert stage is Stage.LAUNCH or not (world.starts / poison).exists()
    assert not set(world.cluster().running()) & set(world.jobs.values()), "what was launched has been ended"


def test_a_message_that_a_dying_worker_takes_with_it_is_sent_again(world: World) -> None:
    """What is popped and never stored as unacknowledged is in no queue any more, whatever the acknowledgement settings."""
    for worker in ("stages1", "stages2"):
        world.service.kill(worker)
    job_id = world.submit("popped")
    redis = world.redis()
    queue = f"{world.service.environment['PIPELINE_REDIS_PREFIX']}stages.{Stage.TRANSLATE}"
    wait_for(lambda: redis.rpop(queue), "the message")
    world.service.start("stages1", "stages2")
    world.wait_ended("popped")
    world.check("popped")
    assert world.jobs["popped"] == job_id
