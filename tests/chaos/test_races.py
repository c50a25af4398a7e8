"""Concurrent operations on the same job: one wins, the others get 409, and nothing of a stopped job runs."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from pipeline_core.common.failpoints import Point
from pipeline_core.stages.names import Stage
from tests.chaos.world import World, a_world
from tests.waiting import HANG_SECONDS, wait_for

LATE = f"{Point.STAGE_CLAIMED}@{Stage.LAUNCH}@late"
LATE_AND_DIES = f"{Point.STAGE_ANSWERED}@{Stage.LAUNCH}@late"
LONG = 300.0


@pytest.fixture(scope="module")
def world(
    tmp_path_factory: pytest.TempPathFactory, postgres_url: str, migrated_database: str, redis_url: str
) -> Iterator[World]:
    """An installation in which everything runs."""
    with a_world(
        tmp_path_factory.mktemp("races"),
        postgres_url,
        migrated_database,
        redis_url,
        PIPELINE_FAILPOINT=f"{LATE}:sleep=12,{LATE_AND_DIES}:exit",
    ) as world:
        world.service.start("stages1", "hooks1", "housekeeping", "beat", "watcher")
        yield world


@pytest.fixture
def rounds(request: pytest.FixtureRequest) -> range:
    return range(request.config.getoption("--race-rounds"))


def put(world: World, job_id: str, action: str) -> int:
    return world.service.session.put(
        f"{world.service.url}/v1/job/{action}/{job_id}", headers={"token": "admin"}, timeout=HANG_SECONDS
    ).status_code


def at_once(*calls: Callable[[], int]) -> list[int]:
    """The answers of calls made at the same moment, in their order."""
    with ThreadPoolExecutor(len(calls)) as pool:
        return [call.result(60) for call in [pool.submit(call) for call in calls]]


def suspended(world: World, name: str) -> str:
    job_id = world.submit(name, park=True)
    world.service.wait_state(job_id, "suspended")
    return job_id


def nothing_runs(world: World, *job_ids: str) -> None:
    """Nothing of these jobs runs, and the database has no pending work for them."""
    jobs = "SELECT id FROM jobs WHERE id = ANY(%s) AND cleanup = 'pending'"
    wait_for(lambda: not world.rows(jobs, list(job_ids)), "the stopped jobs to be cleaned up")
    assert not set(world.cluster().running()) & set(job_ids)
    assert not world.rows("SELECT * FROM steps WHERE job_id = ANY(%s)", list(job_ids))


def test_of_many_resumes_one_wins(world: World, rounds: range) -> None:
    for number in rounds:
        job_id = suspended(world, f"resumes-{number}")
        answers = at_once(*[lambda job_id=job_id: put(world, job_id, "resume")] * 8)
        assert sorted(answers) == [200] + [409] * 7
    for number in rounds:
        world.wait_ended(f"resumes-{number}")
        world.check(f"resumes-{number}", ["waiting", "suspended", "waiting", "running", "succeeded"])


def test_of_a_resume_and_a_stop_the_job_ends_as_they_were_answered(world: World, rounds: range) -> None:
    ids = []
    for number in rounds:
        job_id = suspended(world, f"resume-stop-{number}")
        ids.append(job_id)
        resumed, stopped = at_once(
            lambda job_id=job_id: put(world, job_id, "resume"), lambda job_id=job_id: put(world, job_id, "stop")
        )
        assert (resumed in (200, 409), stopped) == (True, 200)
        events = [
            state for _, state in world.rows("SELECT sequence, state FROM events WHERE job_id = %s ORDER BY 1", job_id)
        ]
        assert ("waiting" in events[1:]) == (resumed == 200)
        assert events[-1] == "stopped"
    nothing_runs(world, *ids)
    world.wait_ended()


@pytest.mark.parametrize("suspends", [True, False], ids=["a gate suspends", "the job is launched and ends"])
def test_a_stop_at_any_moment_stops_for_good(world: World, rounds: range, suspends: bool) -> None:
    ids = []
    for number in rounds:
        job_id = world.submit(f"stop-{suspends}-{number}", park=suspends, seconds=random.choice([0, LONG]))
        ids.append(job_id)
        # Somewhere between the first stage and the end: a job takes about so long here.
        wait = random.uniform(0, 1.5)
        wait_for(
            lambda job_id=job_id, wait=wait: world.rows(
                "SELECT FROM jobs WHERE id = %s AND created_at < now() - %s * interval '1 s'", job_id, wait
            ),
            "the moment",
        )
        answer = put(world, job_id, "stop")
        ((state,),) = world.rows("SELECT state FROM jobs WHERE id = %s", job_id)
        assert (answer, state) in [(200, "stopped"), (409, "succeeded")]
    nothing_runs(world, *ids)
    world.wait_ended()
    for job_id in ids:
        events = [
            state for (state,) in world.rows("SELECT state FROM events WHERE job_id = %s ORDER BY sequence", job_id)
        ]
        assert events.count("stopped") + events.count("succeeded") == 1, events
        assert events[-1] in ("stopped", "succeeded"), events


def test_a_launch_that_was_stopped_long_ago_leaves_nothing_behind_though_its_worker_dies(world: World) -> None:
    faults = world.service.faults
    job_id = world.submit("late", seconds=LONG)
    wait_for(lambda: (faults / f"{LATE}#1").exists(), "the launch to be claimed")
    assert put(world, job_id, "stop") == 200
    wait_for(lambda: world.service.job(job_id)["cleanup"] == "done", "the record to say that nothing is left")
    wait_for(lambda: (faults / f"{LATE_AND_DIES}#1").exists(), "the launch all the same")
    wait_for(lambda: world.cluster().observe(job_id) is not None, "something to be left")
    wait_for(lambda: all(replica.state.ended for replica in world.cluster().observe(job_id).replicas), "it to end")
    nothing_runs(world, job_id)
