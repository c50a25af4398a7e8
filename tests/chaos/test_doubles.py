"""Duplicate messages, APIs, beats, housekeeping workers, watchers, and a worker that is asked to stop: nothing is done twice."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from pipeline_core.stages.names import Stage
from tests.builders import plugin
from tests.chaos.world import STRAIGHT, SUSPENDED, World, a_world
from tests.installation import Installation
from tests.waiting import HANG_SECONDS, wait_for

JOBS = 8
LEASE_SECONDS = 8
"""No worker dies here, so none may lose a lease because a busy machine stands still for a while."""
SLOW_SECONDS = LEASE_SECONDS + 2.0


@pytest.fixture(scope="module")
def world(
    tmp_path_factory: pytest.TempPathFactory, postgres_url: str, migrated_database: str, redis_url: str
) -> Iterator[World]:
    with a_world(
        tmp_path_factory.mktemp("doubles"),
        postgres_url,
        migrated_database,
        redis_url,
        prepare=doubled,
        PIPELINE_LEASE_SECONDS=str(LEASE_SECONDS),
    ) as world:
        # No call may be repeated because a busy machine answered late.
        for name, kind in (("hook", "LifeHook"), ("binder", "SchedulerBinder")):
            address = f"{world.plugins.url}/{name}"
            world.service.register(name, plugin(kind, address, timeoutSeconds=60))
        twins = (f"{name}{twin}" for name in ("housekeeping", "beat", "watcher") for twin in ("", "2"))
        world.service.start("api2", "stages1", "stages2", "hooks1", *twins)
        yield world


def doubled(service: Installation) -> None:
    """Let every process load the module `doubling`, and add a second API, beat, housekeeping worker and watcher."""
    for name, one in list(service.services.items()):
        argv = [word.replace("workers.app", "tests.chaos.doubling") for word in one.argv]
        if name == "api":
            argv.insert(argv.index("api.wsgi:app"), "--config=python:tests.chaos.doubling")
        service.services[name] = replace(one, argv=argv)
        if name in ("api", "housekeeping", "beat", "watcher"):
            twin = [word.replace("housekeeping@", "housekeeping2@").replace("/run/beat", "/run/beat2") for word in argv]
            service.services[f"{name}2"] = replace(one, name=f"{name}2", argv=twin)


def test_nothing_is_done_twice(world: World) -> None:
    bind = world.plugins.plugins["/binder"]

    def slow(packet: dict[str, Any]) -> Any:
        if packet["header"]["jobName"] == "slow":
            time.sleep(SLOW_SECONDS)
        return bind(packet)

    world.plugins.plugins["/binder"] = slow
    straight = ["slow", *(f"straight-{number}" for number in range(JOBS))]
    parked = [f"parked-{number}" for number in range(JOBS // 2)]
    for name in straight:
        world.submit(name)
    for name in parked:
        world.submit(name, park=True)
    world.resume_when_suspended(*parked)
    world.wait_ended()
    for name in straight:
        world.check(name, STRAIGHT)
    for name in parked:
        world.check(name, SUSPENDED)
    asked = [call.headers["Idempotency-Key"] for call in world.plugins.calls]
    assert len(asked) == len(set(asked)), "no plugin was called and no subscriber notified twice either: no worker died"


def test_a_worker_that_is_asked_to_stop_finishes_its_stage_first(world: World) -> None:
    asked, answer = threading.Event(), threading.Event()
    bind = world.plugins.plugins["/binder"]

    def slow(packet: dict[str, Any]) -> Any:
        asked.set()
        answer.wait(HANG_SECONDS)
        return bind(packet)

    world.plugins.plugins["/binder"] = slow
    world.service.kill("stages2")
    world.submit("politely")
    assert asked.wait(HANG_SECONDS)
    stopping = world.service.processes.pop("stages1")
    stopping.terminate()
    wait_for(lambda: "Warm shutdown" in world.service.log("stages1"), "the worker to begin its shutdown")
    answer.set()
    stopping.wait(HANG_SECONDS)
    world.plugins.plugins["/binder"] = bind
    ((stage,),) = world.rows("SELECT stage FROM jobs WHERE name = 'politely'")
    assert stage != Stage.BIND, "the answer was written down"
    world.service.start("stages1", "stages2")
    world.wait_ended("politely")
    world.check("politely")
    assert (
        len([call for call in world.plugins.calls_of("/binder") if call.body["header"]["jobName"] == "politely"]) == 1
    )


def test_messages_were_doubled(world: World) -> None:
    """Otherwise the test above would also pass with a service that sends each message once."""
    redis = world.redis()
    queue = f"{world.service.environment['PIPELINE_REDIS_PREFIX']}stages.translate"
    for worker in ("stages1", "stages2"):
        world.service.kill(worker)
    job_id = world.submit("counted")

    def messages() -> list[dict[str, Any]]:
        """Those of the job, the oldest first; the queue holds probes of its workers too."""
        every = (json.loads(message) for message in reversed(redis.lrange(queue, 0, -1)))
        return [message for message in every if job_id in message["headers"]["argsrepr"]]

    first, second, *_ = wait_for(lambda: found if len(found := messages()) > 1 else None, "two messages")
    assert first == second
    world.service.start("stages1", "stages2")
    world.wait_ended()
    world.check("counted")
