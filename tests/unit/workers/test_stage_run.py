"""What an unexpected exception in a stage does to the job's reason and to the log."""

from __future__ import annotations

from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from pipeline_core.settings import Settings
from pipeline_core.stages.names import Stage
from pipeline_core.stages.outcomes import Advance, Crash, Fail
from tests.unit.jobs.test_cursor import step
from workers.stage_run import crashed, publish_shadows


@pytest.mark.parametrize(
    ("claims", "kind", "beginning"),
    [
        (1, Crash, "The stage launch failed with an unexpected error, ValueError; "),
        (Settings.max_claims, Fail, f"The stage launch failed {Settings.max_claims} times, the last time with "),
    ],
)
def test_the_reason_names_the_exceptions_type_and_where_the_log_has_it(claims: int, kind: type, beginning: str) -> None:
    with capture_logs() as logged:
        outcome = crashed(replace(step(Stage.LAUNCH), crash_count=claims - 1), ValueError("token hush"))
    assert type(outcome) is kind
    assert outcome.reason.startswith(beginning)
    assert f"error_id {logged[0]['error_id']}" in outcome.reason
    assert "hush" not in outcome.reason


def test_what_goes_wrong_with_shadows_is_logged_and_does_not_reach_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise ValueError("no")

    monkeypatch.setattr("pipeline_core.stages.shadows.due", fails)
    with capture_logs() as logged:
        publish_shadows(step(Stage.GATES), Advance())
    assert [line["event"] for line in logged] == ["shadows are not asked: unexpected error"]
