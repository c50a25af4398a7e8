"""When the step that a message names cannot be claimed."""

from __future__ import annotations

import pytest

from pipeline_core.jobs.claims import AlreadyAdvanced, NotOwner, why_not_claimed
from pipeline_core.stages.names import STAGES, Stage, after


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("pending", STAGES)
def test_a_chain_continues_only_where_the_cursor_of_its_epoch_is_past_the_stage(stage: Stage, pending: Stage) -> None:
    further = pending in after(stage)
    assert why_not_claimed((0, pending), 0, stage) == (AlreadyAdvanced() if further else NotOwner())
    assert why_not_claimed((1, pending), 0, stage) == NotOwner(), "the message is of an older epoch"


def test_a_job_without_a_step_has_none_to_claim() -> None:
    assert why_not_claimed(None, 0, Stage.TRANSLATE) == NotOwner()
