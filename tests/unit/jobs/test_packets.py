"""The TaskSet that the plugins of a stage were sent."""

from __future__ import annotations

import pytest

from pipeline_core.common.clock import now
from pipeline_core.errors import NotFound
from pipeline_core.jobs.packets import translated
from pipeline_core.stages.outcomes import TrailEntry, TrailOutcome
from tests.builders import taskset

KEY = "TemplateTranslator.f.a"


def entry(patch: object) -> list[TrailEntry]:
    answered = TrailOutcome.ANSWERED
    return [TrailEntry(plugin_key=KEY, outcome=answered, started_at=now(), patch=patch)]  # type: ignore[arg-type]


def test_a_taskset_is_its_own_with_the_job_s_id() -> None:
    assert translated(taskset(), "TaskSet", "team", "j1", [])["metadata"] == {"name": "j1", "namespace": "team"}


def test_another_job_is_what_its_translator_answered() -> None:
    patch = [{"op": "replace", "path": "", "value": taskset()}]
    assert translated({"kind": "Script"}, "Script", "default", "j1", entry(patch)) == taskset()


@pytest.mark.parametrize("answers", [[], entry(None), entry([])])
def test_a_job_that_was_not_translated_has_none(answers: list[TrailEntry]) -> None:
    with pytest.raises(NotFound, match="was not translated"):
        translated({"kind": "Script"}, "Script", "default", "j1", answers)
