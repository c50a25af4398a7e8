"""Backfills: which points they have, in which order these run, and what a failure means for the rest."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from sqlalchemy import select

from pipeline_core.auth.actor import Actor
from pipeline_core.database import transaction
from pipeline_core.database.models import AuditEntry, Backfill, FlowRow, RunDefinitionRow, TaskAttempt
from pipeline_core.errors import Conflict, Forbidden, NotFound, WrongParameter
from pipeline_core.flows.runs import control
from pipeline_core.flows.schedules import backfill_progress, backfills, schedule_state
from pipeline_core.flows.schedules.backfills import BackfillOperation, BackfillRequest
from pipeline_core.flows.states import Trigger
from pipeline_core.states import JobState
from tests.clock import TestClock
from tests.integration.schedules.ledger import ADA, Ledger, shown, utc

DAILY = {"cron": "0 0 * * *"}
DAYS = ["20 00:00", "21 00:00", "22 00:00", "23 00:00"]


def request(start: str = "2026-02-20 00:00:00", end: str = "2026-02-23 00:00:00", **options: bool) -> BackfillRequest:
    return BackfillRequest(start=start, end=end, **options)


def begin(name: str = "sales", **options: Any) -> str:
    """A backfill of four days; its ID."""
    return str(backfills.start(name, request(**options), ADA)["backfillID"])


def detail(backfill_id: str, actor: Actor = ADA) -> dict[str, Any]:
    with transaction() as session:
        return backfills.detail(session, backfill_id, actor)


def state(backfill_id: str) -> str:
    return str(detail(backfill_id)["state"])


def states(backfill_id: str) -> list[str]:
    return [point["state"] for point in detail(backfill_id)["points"]]


def let_end(ledger: Ledger, *outcomes: JobState) -> None:
    """Let the runs that are running end, round by round, each in its way."""
    for outcome in outcomes:
        ledger.admit("sales")
        ledger.end_running("sales", outcome, Trigger.BACKFILL)
        ledger.advance("sales")


OK, BAD = JobState.SUCCEEDED, JobState.FAILED


@pytest.mark.parametrize(
    ("start", "end", "zone", "points"),
    [
        ("2026-02-20 00:00:00", "2026-02-22 00:00:00", "UTC", ["20 00:00", "21 00:00", "22 00:00"]),
        ("2026-02-20 00:00:01", "2026-02-21 23:59:59", "UTC", ["21 00:00"]),
        ("2026-02-20T00:00:00Z", "2026-02-21T08:00:00+08:00", "UTC", ["20 00:00", "21 00:00"]),
        ("2026-02-20 00:00:00", "2026-02-21 00:00:00", "Asia/Shanghai", ["19 16:00", "20 16:00"]),
        ("2026-02-20 12:00:00", "2026-02-20 13:00:00", "UTC", []),
    ],
)
def test_a_dry_run_names_the_points_both_ends_included_and_does_nothing(
    ledger: Ledger, start: str, end: str, zone: str, points: list[str]
) -> None:
    ledger.add("sales", timezone=zone, **DAILY)
    plan = backfills.start("sales", request(start, end, dry_run=True), ADA)
    assert plan.keys() == {"points", "leftOut", "timezone"}
    assert shown(plan["points"]) == points
    assert ledger.runs("sales", Trigger.BACKFILL) == []


@pytest.mark.parametrize(
    ("start", "end", "path", "text"),
    [
        ("yesterday", "2026-02-22 00:00:00", "from", "must be of the form 2026-03-01 00:00:00, .*2026-03-01T00:00:00Z"),
        ("2026-02-20 00:00:00", "2026-03-01 12:00:31", "to", "must not lie in the future"),
        ("2026-02-22 00:00:00", "2026-02-20 00:00:00", "from", "after its end"),
        ("1971-01-01 00:00:00", "2026-02-20 00:00:00", "from", "more than 10000 points"),
        ("1066-10-14 00:00:00", "2026-02-20 00:00:00", "from", "must lie in the years"),
    ],
)
def test_a_backfill_that_cannot_be_says_why(ledger: Ledger, start: str, end: str, path: str, text: str) -> None:
    ledger.add("sales", **DAILY)
    with pytest.raises(WrongParameter, match=text) as refused:
        backfills.start("sales", request(start, end), ADA)
    assert refused.value.errors.keys() == {path}


def test_a_flow_without_a_schedule_or_of_others_has_no_backfills(ledger: Ledger) -> None:
    ledger.add("by-hand", cron=None)
    with pytest.raises(Conflict, match="no schedule"):
        begin("by-hand")
    with pytest.raises(NotFound):
        backfills.start("by-hand", request(), Actor(name="bob", own_only=True))


def test_points_run_one_after_the_other_oldest_first(ledger: Ledger) -> None:
    ledger.add("sales", **DAILY)
    backfill_id = begin()
    assert ledger.points("sales", Trigger.BACKFILL) == DAYS[:1], "the first run is there at once"
    for number in range(1, 5):
        assert ledger.points("sales", Trigger.BACKFILL) == DAYS[:number]
        ledger.advance("sales")
        assert ledger.states("sales", Trigger.BACKFILL) == ["succeeded"] * (number - 1) + ["running"]
        assert state(backfill_id) == "running"
        let_end(ledger, OK)
    found = detail(backfill_id)
    assert (found["state"], found["reason"], found["made"], found["total"]) == ("succeeded", "", 4, 4)
    assert found["finishedAt"] is not None
    assert {run.runner for run in ledger.runs("sales", Trigger.BACKFILL)} == {"ada"}


def test_as_many_points_run_at_a_time_as_the_flow_allows(ledger: Ledger) -> None:
    ledger.add("sales", max_active_runs=3, **DAILY)
    backfill_id = begin()
    ledger.advance("sales")
    assert states(backfill_id) == ["running", "running", "running", "waiting"]
    assert len(ledger.runs("sales", Trigger.BACKFILL)) == 3
    let_end(ledger, OK, OK)
    assert state(backfill_id) == "succeeded"


def test_a_backfill_and_the_schedule_take_no_room_from_each_other(ledger: Ledger, clock: TestClock) -> None:
    ledger.add("sales")
    backfill_id = begin(start="2026-03-01 10:00:00", end="2026-03-01 10:01:00")
    clock.move(minutes=1)
    ledger.tick()
    ledger.advance("sales")
    assert ledger.states("sales") == ["running"]
    assert states(backfill_id) == ["running", "waiting"]


def test_a_failure_stops_a_backfill_that_is_to_stop_and_a_resume_retries_it_and_goes_on(
    ledger: Ledger, clock: TestClock
) -> None:
    ledger.add("sales", max_active_runs=3, **DAILY)
    backfill_id = begin(stop_on_failure=True)
    let_end(ledger, OK, BAD)
    found = detail(backfill_id)
    assert (found["state"], states(backfill_id)) == ("failed", ["succeeded", "failed", "waiting", "waiting"])
    failed = found["points"][1]["runID"]
    assert found["reason"] == f"the run {failed} of 2026-02-21T00:00:00Z has failed"
    for _ in range(3):
        ledger.advance("sales")
    assert ledger.points("sales", Trigger.BACKFILL) == DAYS[:2], "nothing later starts after a failure"

    backfills.act(backfill_id, BackfillOperation.RESUME, ADA)
    ledger.admit("sales")
    assert states(backfill_id) == ["succeeded", "running", "waiting", "waiting"]
    assert detail(backfill_id)["points"][1]["runID"] == failed, "the same run"
    let_end(ledger, OK)
    assert states(backfill_id) == ["succeeded", "succeeded", "running", "waiting"]
    let_end(ledger, OK, OK)
    assert state(backfill_id) == "succeeded"


def test_a_point_may_fail_again_after_a_resume(ledger: Ledger) -> None:
    ledger.add("sales", **DAILY)
    backfill_id = begin(stop_on_failure=True)
    let_end(ledger, BAD)
    for _ in range(2):
        backfills.act(backfill_id, BackfillOperation.RESUME, ADA)
        assert state(backfill_id) == "running"
        let_end(ledger, BAD)
        assert (state(backfill_id), states(backfill_id)[:2]) == ("failed", ["failed", "waiting"])


def test_a_backfill_goes_on_after_failures_and_says_at_its_end_how_many(ledger: Ledger) -> None:
    ledger.add("sales", **DAILY)
    backfill_id = begin()
    let_end(ledger, BAD, OK, BAD, OK)
    found = detail(backfill_id)
    assert (found["state"], found["reason"]) == ("failed", "2 of 4 points failed")
    assert states(backfill_id) == ["failed", "succeeded", "failed", "succeeded"]
    backfills.act(backfill_id, BackfillOperation.RESUME, ADA)
    ledger.admit("sales")
    assert states(backfill_id) == ["running", "succeeded", "failed", "succeeded"], "no more at a time than allowed"
    let_end(ledger, OK, OK)
    assert (state(backfill_id), set(states(backfill_id))) == ("succeeded", {"succeeded"})


def test_a_run_that_was_retried_by_hand_needs_no_retry(ledger: Ledger) -> None:
    ledger.add("sales", **DAILY)
    backfill_id = begin(stop_on_failure=True)
    let_end(ledger, BAD)
    control.retry(detail(backfill_id)["points"][0]["runID"], ADA)
    let_end(ledger, OK)
    assert state(backfill_id) == "failed", "until it is resumed"
    backfills.act(backfill_id, BackfillOperation.RESUME, ADA)
    assert ledger.points("sales", Trigger.BACKFILL) == DAYS[:2]


def test_a_failed_run_that_was_cleared_is_made_anew_by_a_resume(ledger: Ledger) -> None:
    ledger.add("sales", **DAILY)
    backfill_id = begin(stop_on_failure=True)
    let_end(ledger, OK, BAD)
    nothing_owed()
    control.clear(detail(backfill_id)["points"][1]["runID"], ADA)
    backfills.act(backfill_id, BackfillOperation.RESUME, ADA)
    assert ledger.points("sales", Trigger.BACKFILL) == DAYS[:2]
    let_end(ledger, OK, OK, OK)
    assert (state(backfill_id), set(states(backfill_id))) == ("succeeded", {"succeeded"})


def nothing_owed() -> None:
    with transaction() as session:
        for attempt in session.scalars(select(TaskAttempt)):
            attempt.pending = False


def test_a_stopped_backfill_stops_its_runs_and_can_go_on(ledger: Ledger) -> None:
    ledger.add("sales", max_active_runs=2, **DAILY)
    backfill_id = begin()
    ledger.admit("sales")
    backfills.act(backfill_id, BackfillOperation.STOP, ADA)
    found = detail(backfill_id)
    assert (found["state"], found["reason"]) == ("stopped", "stopped by ada")
    assert states(backfill_id) == ["stopped", "stopped", "waiting", "waiting"]
    ledger.advance("sales")
    assert len(ledger.runs("sales", Trigger.BACKFILL)) == 2
    backfills.act(backfill_id, BackfillOperation.STOP, ADA)
    backfills.act(backfill_id, BackfillOperation.RESUME, ADA)
    let_end(ledger, OK, OK)
    assert (state(backfill_id), set(states(backfill_id))) == ("succeeded", {"succeeded"})


def test_what_has_ended_cannot_be_stopped_nor_what_has_succeeded_resumed(ledger: Ledger) -> None:
    ledger.add("sales", **DAILY)
    failed = begin(stop_on_failure=True)
    let_end(ledger, BAD)
    with pytest.raises(Conflict, match="has failed"):
        backfills.act(failed, BackfillOperation.STOP, ADA)
    backfills.act(failed, BackfillOperation.RESUME, ADA)
    backfills.act(failed, BackfillOperation.RESUME, ADA)
    let_end(ledger, OK, OK, OK, OK)
    with pytest.raises(Conflict, match="has succeeded"):
        backfills.act(failed, BackfillOperation.RESUME, ADA)
    with pytest.raises(NotFound):
        backfills.act("b0", BackfillOperation.STOP, ADA)


def test_a_flow_has_one_backfill_at_a_time(ledger: Ledger) -> None:
    ledger.add("sales", **DAILY)
    ledger.add("other", **DAILY)
    first = begin()
    with pytest.raises(Conflict, match=f"The backfill {first} of the flow sales is running"):
        begin()
    assert backfills.start("sales", request(dry_run=True), ADA)["points"]
    begin("other")
    backfills.act(first, BackfillOperation.STOP, ADA)
    second = begin()
    with pytest.raises(Conflict, match=second):
        backfills.act(first, BackfillOperation.RESUME, ADA)


def test_of_many_backfills_begun_at_once_one_begins(ledger: Ledger) -> None:
    ledger.add("sales", **DAILY)
    together = Barrier(6)

    def attempt() -> bool:
        together.wait()
        try:
            begin()
        except Conflict:
            return False
        return True

    with ThreadPoolExecutor(6) as pool:
        assert sum(future.result() for future in [pool.submit(attempt) for _ in range(6)]) == 1


def test_points_that_are_done_or_under_way_are_left_out(ledger: Ledger, clock: TestClock) -> None:
    ledger.add("sales", cron="0 * * * *", cronjob_start_time="2026-03-01 08:00:00", max_active_runs=2)
    ledger.tick(1)
    ledger.admit("sales")
    first, second, *_ = ledger.runs("sales")
    ledger.end(first.id, OK)
    ledger.end(second.id, BAD)
    clock.moment = utc("2026-03-01 14:30:00")
    plan = backfills.start("sales", request("2026-03-01 07:00:00", "2026-03-01 14:00:00", dry_run=True), ADA)
    assert shown(plan["points"]) == ["01 07:00", "01 09:00"], "one that never was, and one that failed"
    assert [(item["point"][11:16], item["state"]) for item in plan["leftOut"]] == [
        ("08:00", "succeeded"),
        ("10:00", "waiting"),
        ("11:00", "waiting"),
        ("12:00", "waiting"),
        ("13:00", "due"),
        ("14:00", "due"),
    ]
    assert plan["leftOut"][0]["runID"] == first.id
    assert plan["leftOut"][-1]["runID"] is None
    schedule_state.pause("sales", ADA)
    paused = backfills.start("sales", request("2026-03-01 13:00:00", "2026-03-01 14:00:00", dry_run=True), ADA)
    assert shown(paused["points"]) == ["01 13:00", "01 14:00"], "a paused schedule is not about to run them"


def test_a_backfill_in_which_nothing_is_left_to_do_has_succeeded(ledger: Ledger) -> None:
    ledger.add("sales", **DAILY)
    begin()
    let_end(ledger, OK, OK, OK, OK)
    again = backfills.start("sales", request(), ADA)
    assert again["points"] == []
    assert len(again["leftOut"]) == 4
    assert state(again["backfillID"]) == "succeeded"


def test_a_point_that_failed_in_an_earlier_backfill_is_run_anew_as_the_flow_is_now(ledger: Ledger) -> None:
    ledger.add("sales", **DAILY)
    first = begin()
    let_end(ledger, OK, BAD, OK, OK)
    old = detail(first)["points"][1]["runID"]
    ledger.replace("sales", describe="mended", **DAILY)
    second = backfills.start("sales", request(), ADA)
    assert shown(second["points"]) == ["21 00:00"]
    nothing_owed()
    ledger.advance("sales")
    (point,) = detail(second["backfillID"])["points"]
    assert point["runID"] != old
    with transaction() as session:
        assert session.get_one(RunDefinitionRow, point["runID"]).entry["pipeline"]["describe"] == "mended"
    let_end(ledger, OK)
    assert state(second["backfillID"]) == "succeeded"


def test_a_stopped_run_of_another_backfill_is_replaced_when_its_jobs_have_ended(ledger: Ledger) -> None:
    ledger.add("sales", **DAILY)
    first = begin()
    ledger.admit("sales")
    backfills.act(first, BackfillOperation.STOP, ADA)
    old = detail(first)["points"][0]["runID"]
    second = backfills.start("sales", request(), ADA)["backfillID"]
    nothing_owed()
    ledger.advance("sales")
    assert [run.id for run in ledger.runs("sales", Trigger.BACKFILL)] == [old]
    ledger.end(old, JobState.STOPPED)
    ledger.advance("sales")
    assert old not in [run.id for run in ledger.runs("sales", Trigger.BACKFILL)]
    assert states(second)[0] == "running"


def test_the_schedule_does_not_make_up_what_a_backfill_has_done(ledger: Ledger, clock: TestClock) -> None:
    ledger.add("sales", imported=True, cronjob_start_time="2026-02-20 00:00:00", **DAILY)
    begin(end="2026-02-21 00:00:00")
    let_end(ledger, OK, OK)
    assert ledger.upcoming("sales")["missed"]["count"] == 8
    schedule_state.resume("sales", ADA, replay=True)
    ledger.tick(1)
    assert ledger.points("sales")[0] == "22 00:00"


def test_many_who_look_at_a_backfill_at_once_make_each_run_once(ledger: Ledger) -> None:
    ledger.add("sales", max_active_runs=4, **DAILY)
    backfill_id = begin(start="2026-02-10 00:00:00")
    flow_id = ledger.row("sales").id
    for _ in range(4):
        ledger.admit("sales")
        ledger.end_running("sales", OK, Trigger.BACKFILL)
        with ThreadPoolExecutor(5) as pool:
            for future in [pool.submit(backfill_progress.advance, flow_id) for _ in range(10)]:
                future.result()
    assert ledger.points("sales", Trigger.BACKFILL) == [f"{day} 00:00" for day in range(10, 24)]
    let_end(ledger, OK)
    assert state(backfill_id) == "succeeded"


def test_a_run_that_cannot_be_made_ends_the_backfill_and_it_can_be_resumed(ledger: Ledger) -> None:
    ledger.add("sales", **DAILY)
    backfill_id = begin()
    ledger.admit("sales")
    ledger.end_running("sales", OK, Trigger.BACKFILL)
    flow = ledger.row("sales")
    ledger.change("sales", entry={"pipeline": {"name": "sales"}})
    backfill_progress.advance(flow.id)
    found = detail(backfill_id)
    assert found["state"] == "failed"
    assert found["reason"].startswith("A run could not be made: tasks")
    ledger.change("sales", entry=flow.entry)
    backfills.act(backfill_id, BackfillOperation.RESUME, ADA)
    let_end(ledger, OK, OK, OK)
    assert (state(backfill_id), set(states(backfill_id))) == ("succeeded", {"succeeded"})


def test_who_sees_only_its_own_sees_backfills_that_it_runs_and_those_of_its_flows(ledger: Ledger) -> None:
    ledger.add("sales", **DAILY)
    bob, eve, ada = Actor(name="bob", admin=True), Actor(name="eve", own_only=True), Actor(name="ada", own_only=True)
    backfill_id = backfills.start("sales", request(), bob)["backfillID"]
    assert detail(backfill_id, ada)["runner"] == "bob"
    assert detail(backfill_id, Actor(name="bob", own_only=True))["id"] == backfill_id
    for act in (lambda: detail(backfill_id, eve), lambda: backfills.act(backfill_id, BackfillOperation.STOP, eve)):
        with pytest.raises(NotFound):
            act()


def test_who_sees_only_its_own_does_not_let_another_s_backfill_submit_again(ledger: Ledger) -> None:
    ledger.add("sales", **DAILY)
    backfill_id = begin()
    bob = Actor(name="bob", admin=True)
    backfills.act(backfill_id, BackfillOperation.STOP, bob)
    with transaction() as session:
        flow = session.scalars(select(FlowRow)).one()
        runner, flow.creator = session.get_one(Backfill, backfill_id).runner, "eve"
    with pytest.raises(Forbidden, match='may submit for "eve" only'):
        backfills.act(backfill_id, BackfillOperation.RESUME, Actor(name="eve", own_only=True))
    backfills.act(backfill_id, BackfillOperation.RESUME, Actor(name=runner, own_only=True))


def test_backfills_are_listed_the_newest_first_and_audited(ledger: Ledger, clock: TestClock) -> None:
    ledger.add("sales", **DAILY)
    made = []
    for _ in range(3):
        made.append(begin())
        backfills.act(made[-1], BackfillOperation.STOP, ADA)
        clock.move(seconds=1)
    with transaction() as session:
        page, total = backfills.listing(session, "sales", ADA, limit=2, offset=0)
        noted = session.execute(select(AuditEntry.action, AuditEntry.target).order_by(AuditEntry.id)).all()
    assert ([item["id"] for item in page], total) == (made[:0:-1], 3)
    assert (page[0]["from"], page[0]["to"]) == ("2026-02-20T00:00:00Z", "2026-02-23T00:00:00Z")
    backfill_audit = [(action, target) for action, target in noted if action.startswith("backfill.")]
    assert backfill_audit == [(f"backfill.{word}", each) for each in made for word in ("start", "stop")]
