"""The process that asks shadows is killed while it asks one, with the worker that keeps it or by losing that worker."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.builders import plugin
from tests.chaos.world import GATES, STRAIGHT, World, a_world
from tests.waiting import HANG_SECONDS, wait_for

SHADOW = "AccessGate.shadow.tests"


def kill_both(world: World) -> None:
    """Kill the worker and the process that it keeps."""
    world.service.kill("shadows")


def kill_the_keeper(world: World) -> None:
    """Kill the worker alone: the process that it keeps ends by itself, though it asks somebody."""
    keeper = world.service.processes.pop("shadows")
    (kept,) = psutil.Process(keeper.pid).children()
    os.kill(keeper.pid, signal.SIGKILL)
    keeper.wait(HANG_SECONDS)
    kept.wait(HANG_SECONDS)


@pytest.mark.parametrize("kill", [kill_both, kill_the_keeper])
def test_a_killed_process_costs_answers_of_shadows_and_nothing_of_a_job(
    tmp_path: Path, postgres_url: str, migrated_database: str, redis_url: str, kill: Callable[[World], None]
) -> None:
    asked, answer = threading.Event(), threading.Event()

    def slow(packet: dict[str, Any]) -> dict[str, str]:
        asked.set()
        answer.wait(HANG_SECONDS)
        return {"decision": "stop"}

    with a_world(tmp_path, postgres_url, migrated_database, redis_url) as world:
        address = world.plugins.plugin("/shadow", slow)
        world.service.register("shadow", plugin(address=address, mode="shadow", shadowOf=GATES[0]))
        world.service.start("stages1", "hooks1", "housekeeping", "beat", "watcher", "shadows")
        world.submit("before")
        assert asked.wait(HANG_SECONDS), "the shadow is asked"
        kill(world)
        answer.set()
        world.wait_ended("before")
        world.service.start("shadows")
        world.submit("after")
        world.wait_ended("after")

        def answers() -> list[tuple[Any, ...]]:
            return world.rows("SELECT job_id, plugin_key, decision, agrees FROM shadow_answers")

        wait_for(lambda: any(row[0] == world.jobs["after"] for row in answers()), "the shadow's answer")
        for name in ("before", "after"):
            world.check_launched_once(name)
            world.check_events(name, STRAIGHT)
        assert set(answers()) <= {(job_id, SHADOW, "stop", False) for job_id in world.jobs.values()}
