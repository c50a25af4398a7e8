"""Steps that waited long are claimed and finished a few at a time."""

from __future__ import annotations

from types import SimpleNamespace, TracebackType
from typing import Any

import pytest

from pipeline_core.jobs import claims, cursor
from pipeline_core.jobs.cursor import Progress
from pipeline_core.stages.names import Stage
from pipeline_core.stages.outcomes import Advance, ClaimedStep, Outcome
from pipeline_core.stages.shares import SLOW_SECONDS
from tests.integration.jobs.test_cursor import job_of, submitted, submitted_taskset, taskset
from workers import stage_run
from workers.lease_renewal import lease_renewal

pytestmark = pytest.mark.usefixtures("service_settings")


class Turns:
    """In the place of the semaphore: notes what happens in which order."""

    def __init__(self) -> None:
        self.happened: list[str] = []

    def __enter__(self) -> None:
        self.happened.append(f"entered while {len(lease_renewal()._held)} is renewed")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.happened.append("left")


@pytest.mark.parametrize(
    ("slow_seconds", "expected"),
    [(0.0, ["entered while 1 is renewed", "finished", "left"]), (60.0, ["finished"])],
)
def test_a_step_that_waited_long_takes_a_turn_until_it_is_finished(
    slow_seconds: float, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: Any = Turns()
    monkeypatch.setattr(stage_run, "slow_turns", lambda: turns)
    monkeypatch.setattr(stage_run, "SLOW_SECONDS", slow_seconds)
    finish = cursor.finish

    def noted(step: ClaimedStep, outcome: Outcome, *carries: Any) -> Progress:
        progress = finish(step, outcome, *carries)
        turns.happened.append("finished")
        return progress

    monkeypatch.setattr(cursor, "finish", noted)
    job_id = submitted_taskset()
    stage_run.run(job_id, 0, Stage.LAUNCH, "w1")
    assert turns.happened == expected
    assert job_of(job_id).state == "succeeded"


def test_a_step_that_waited_for_a_place_takes_a_turn_until_it_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    turns: Any = Turns()
    monkeypatch.setattr(stage_run, "slow_turns", lambda: turns)
    claim = claims.claim

    def noted(*step: Any, **owner: Any) -> Any:
        turns.happened.append("claimed")
        return claim(*step, **owner)

    monkeypatch.setattr(claims, "claim", noted)
    job_id = submitted_taskset()
    stage_run.run(job_id, 0, Stage.LAUNCH, "w1", waited=True)
    assert turns.happened == ["entered while 0 is renewed", "claimed", "left"]
    assert job_of(job_id).state == "succeeded"


def test_a_launch_after_a_stage_that_waited_long_takes_a_turn_too(monkeypatch: pytest.MonkeyPatch) -> None:
    turns: Any = Turns()
    clock = SimpleNamespace(now=0.0)

    def translated(step: ClaimedStep) -> Outcome:
        clock.now += SLOW_SECONDS
        return Advance(taskset=taskset())

    monkeypatch.setattr(stage_run, "slow_turns", lambda: turns)
    monkeypatch.setattr(stage_run, "time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setitem(stage_run.RUN, Stage.TRANSLATE, translated)
    job_id = submitted()
    stage_run.run(job_id, 0, Stage.TRANSLATE, "w1", carries=[Stage.LAUNCH])
    assert turns.happened == ["entered while 1 is renewed", "left"] * 2
    assert job_of(job_id).state == "succeeded"
