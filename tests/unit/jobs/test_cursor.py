"""How a chain continues after each outcome of a step."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pipeline_core.clusters.base import Observation
from pipeline_core.features.snapshot import RegisteredPlugin, Snapshot
from pipeline_core.jobs.cursor import (
    Continue,
    Done,
    Parked,
    Progress,
    progress_of,
)
from pipeline_core.stages.names import Stage
from pipeline_core.stages.outcomes import Advance, ClaimedStep, Fail, Launched, Outcome, Postpone, Stop, Suspend
from tests.unit.stages.conftest import HEADER, plugin


def step(stage: Stage, epoch: int = 0) -> ClaimedStep:
    return ClaimedStep(
        job_id="j0",
        epoch=epoch,
        stage=stage,
        owner="w1",
        claim_count=1,
        kind="TaskSet",
        user_id="u1",
        namespace="default",
        attempt=0,
        request_id="",
        header=HEADER,
        factors={},
        plugins=Snapshot(1, ()),
    )


@pytest.mark.parametrize(
    ("registered", "stage", "following"),
    [
        ((), Stage.TRANSLATE, Stage.LAUNCH),
        ((Stage.GATES,), Stage.TRANSLATE, Stage.GATES),
        ((Stage.GATES, Stage.BIND), Stage.GATES, Stage.BIND),
        ((Stage.GATES, Stage.BIND), Stage.BIND, Stage.LAUNCH),
    ],
)
def test_a_finished_stage_is_followed_by_the_next_with_a_matching_plugin(
    registered: Sequence[Stage], stage: Stage, following: Stage
) -> None:
    plugins: list[RegisteredPlugin] = [plugin(of, f"of-{of}") for of in registered]
    assert progress_of(step(stage), Advance(), Snapshot(2, plugins)) == Continue(following)


def test_a_suspended_job_is_parked_with_this_and_all_later_stages_under_the_next_epoch() -> None:
    outcome = Suspend(trail=(), plugin_key="gate", reason="ask a person")
    assert progress_of(step(Stage.GATES, epoch=3), outcome, Snapshot(1, ())) == Parked(
        4, (Stage.GATES, Stage.DECORATE, Stage.BIND, Stage.LAUNCH)
    )


@pytest.mark.parametrize(
    "outcome",
    [
        Stop(trail=(), reason="no"),
        Fail(trail=(), reason="no"),
        Postpone(reason="later", seconds=1),
        Launched(observation=Observation("j0", 0, ())),
    ],
    ids=lambda outcome: type(outcome).__name__,
)
def test_after_any_other_outcome_the_chain_ends(outcome: Outcome) -> None:
    expected: Progress = Done()
    assert progress_of(step(Stage.LAUNCH), outcome, Snapshot(1, ())) == expected
