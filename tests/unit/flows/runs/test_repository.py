from __future__ import annotations

from datetime import UTC, datetime

import pytest

from pipeline_core.auth.actor import Actor
from pipeline_core.database.models import RunRow
from pipeline_core.flows.definition.flow import parse_stored
from pipeline_core.flows.runs.repository import alert_body, is_visible
from pipeline_core.flows.states import RunState, Trigger
from tests.builders import flow_entry

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
RUN = RunRow(
    id="r1",
    trigger=Trigger.SCHEDULE,
    execution_date=NOON,
    state=RunState.FAILED,
    reason="task a: failed",
    creator="ann",
    runner="bob",
    created_at=NOON,
    started_at=NOON,
    finished_at=None,
)


def test_an_alert_names_the_run_its_times_and_the_users_of_its_flow() -> None:
    flow = parse_stored(flow_entry("nightly", {"a": []}, alert_user="ada, bob"))
    body = alert_body(RUN, flow, "https://pipeline.example/")
    assert (body["run"], body["flow"], body["users"]) == ("r1", "nightly", ["ada", "bob"])
    assert (body["startAt"], body["finishedAt"]) == ("2026-03-01T12:00:00Z", None)
    assert body["link"] == "https://pipeline.example/v1/runs/r1"
    assert "state" not in body, "its delivery adds it"


@pytest.mark.parametrize(("name", "visible"), [("ann", True), ("bob", True), ("eve", False)])
def test_a_run_is_visible_to_its_runner_and_to_the_creator_of_its_flow(name: str, visible: bool) -> None:
    assert is_visible(Actor(name=name, own_only=True), RUN) is visible
    assert is_visible(Actor(name=name, admin=True), RUN)
