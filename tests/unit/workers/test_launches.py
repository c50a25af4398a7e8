"""Who handles the message of a launch while one thread launches jobs together."""

from __future__ import annotations

from dataclasses import replace

from pipeline_core.stages.names import Stage
from tests.unit.jobs.test_cursor import step
from workers.launches import Launches

FIRST, SECOND, THIRD = (replace(step(Stage.LAUNCH), job_id=f"j{number}") for number in range(3))


def test_messages_are_left_to_the_thread_that_launches_jobs_together() -> None:
    launches = Launches()
    assert launches.admits((FIRST.job_id, 0))
    assert launches.lead()
    assert not launches.lead(), "one thread of the process at a time"
    assert not launches.admits((SECOND.job_id, 0))
    assert not launches.admits((THIRD.job_id, 0))
    launches.done(SECOND)
    assert launches.end() == [(THIRD.job_id, 0)], "what it has not launched is handled by itself"
    assert launches.admits((SECOND.job_id, 0)), "its message came before"


def test_a_message_that_comes_after_the_launch_of_its_job_has_nothing_to_do_once() -> None:
    launches = Launches()
    assert launches.lead()
    launches.done(FIRST)
    assert launches.end() == []
    assert launches.admits((FIRST.job_id, 1)), "of another epoch"
    assert not launches.admits((FIRST.job_id, 0))
    assert launches.admits((FIRST.job_id, 0))


def test_for_a_moment_after_none_has_waited_nobody_looks_again() -> None:
    launches = Launches()
    assert launches.lead()
    launches.end()
    assert not launches.lead()
