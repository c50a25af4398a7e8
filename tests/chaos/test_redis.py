"""Redis loses its data, is unavailable, hangs, or is full, while jobs are in every state: all continue."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pipeline_up.embedded import EmbeddedRedis
from tests.chaos.servers import Restartable, restartable
from tests.chaos.world import STRAIGHT, SUSPENDED, World, a_world
from tests.waiting import HANG_SECONDS, wait_for
from workers.names import queues

SERVICES = ("stages1", "hooks1", "flows", "housekeeping", "shadows", "beat", "watcher")


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Restartable]:
    with restartable(EmbeddedRedis(tmp_path_factory.mktemp("redis") / "server", durable=False)) as server:
        yield server


@pytest.fixture(scope="module")
def world(
    tmp_path_factory: pytest.TempPathFactory, postgres_url: str, migrated_database: str, redis: Restartable
) -> Iterator[World]:
    with a_world(tmp_path_factory.mktemp("world"), postgres_url, migrated_database, redis.url) as world:
        world.service.start(*SERVICES)
        yield world


@contextmanager
def emptied(redis: Restartable) -> Iterator[None]:
    redis.redis().flushall()
    yield


@contextmanager
def started_without_data(redis: Restartable) -> Iterator[None]:
    redis.end()
    redis.forget()
    redis.start()
    yield


@contextmanager
def away(redis: Restartable) -> Iterator[None]:
    redis.end()
    yield
    redis.start()


@contextmanager
def hanging(redis: Restartable) -> Iterator[None]:
    redis.pause()
    yield
    redis.go_on()


@contextmanager
def full(redis: Restartable) -> Iterator[None]:
    redis.redis().config_set("maxmemory", 1)
    yield
    redis.redis().config_set("maxmemory", 0)


TROUBLES = [emptied, started_without_data, away, hanging, full]


@pytest.mark.parametrize("trouble", TROUBLES)
def test_jobs_in_every_state_go_on_whatever_becomes_of_redis(world: World, redis: Restartable, trouble: Any) -> None:
    name = trouble.__name__
    before = {name: process.pid for name, process in world.service.processes.items()}
    parked = [f"{name}-parked-{number}" for number in range(2)]
    for job in parked:
        world.submit(job, park=True)
    running, held = f"{name}-running", f"{name}-held"
    world.submit(running, seconds=4)
    for job in (*parked, running):
        world.service.wait_state(world.jobs[job], "suspended", "running")
    with holding(world, "/decorator") as asked:
        world.submit(held)
        assert asked.wait(HANG_SECONDS)
        under_way = [f"{name}-{number}" for number in range(4)]
        for job in under_way:
            world.submit(job)
        with trouble(redis):
            submitted = [f"{name}-meanwhile-{number}" for number in range(2)]
            for job in submitted:
                world.submit(job)
            world.service.put(f"/v1/job/resume/{world.jobs[parked[0]]}")
    world.service.put(f"/v1/job/resume/{world.jobs[parked[1]]}")
    world.submit(f"{name}-after")
    world.wait_ended()
    for job in (running, held, *under_way, *submitted, f"{name}-after"):
        world.check(job, STRAIGHT)
    for job in parked:
        world.check(job, SUSPENDED)
    assert {name: process.pid for name, process in world.service.processes.items()} == before, (
        "nobody had to be started again"
    )


def test_processes_that_start_before_redis_wait_for_it(world: World, redis: Restartable) -> None:
    for service in SERVICES:
        world.service.kill(service)
    with away(redis):
        started = {service: len(world.service.log(service)) for service in SERVICES}
        world.service.start(*SERVICES)
        for service in ("stages1", "hooks1", "housekeeping", "beat"):
            wait_for(
                lambda service=service: "onnect" in world.service.log(service)[started[service] :],  # type: ignore[misc]
                f"{service} to have found that Redis is away",
            )
        world.submit("early")
    world.wait_ended("early")
    world.check("early")


@contextmanager
def holding(world: World, path: str) -> Iterator[threading.Event]:
    """Let a plugin answer only at the end of the block; the event is set when it was called."""
    asked, answer = threading.Event(), threading.Event()
    plugin = world.plugins.plugins[path]

    def late(packet: dict[str, Any]) -> Any:
        asked.set()
        answer.wait(HANG_SECONDS)
        return plugin(packet)

    world.plugins.plugins[path] = late
    try:
        yield asked
    finally:
        world.plugins.plugins[path] = plugin
        answer.set()


def test_every_queue_s_probe_arrives_and_its_age_can_be_read(world: World) -> None:
    seen = "SELECT at FROM heartbeats WHERE name = %s"
    for queue in queues():
        wait_for(lambda queue=queue: world.rows(seen, f"queue-probe/{queue}"), f"the probe of {queue}")  # type: ignore[misc]
    metrics = world.service.ask("GET", "/metrics").text
    for queue in queues():
        assert f'pipeline_queue_probe_age_seconds{{queue="{queue}"}}' in metrics
