"""Schedules and backfills over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from pipeline_core.auth.privileges import Privilege
from pipeline_core.common.clock import now
from pipeline_core.common.ids import new_flow_id
from pipeline_core.database import transaction
from pipeline_core.database.models import FlowRow
from pipeline_core.flows.definition.flow import parse_stored
from pipeline_core.flows.schedules.schedule_state import apply_definition
from tests.integration.api.conftest import Client
from tests.servers import delete_rows

SCHEDULE = "/v1/flows/sales/schedule"
BACKFILL = "/v1/flows/sales/backfill"
WEEK = {"from": "2026-03-01 00:00:00", "to": "2026-03-07 00:00:00"}


def add(name: str, *, cron: str | None = "0 0 * * *", creator: str = "ada", imported: bool = False) -> None:
    schedule = {"schedule_type": "crontab", "cron_time": cron} if cron else {}
    entry = {
        "pipeline": {"name": name, "cronjob_start_time": "2026-03-01 00:00:00", **schedule},
        "tasks": [{"name": "only", "job_templete": "logical"}],
    }
    definition, moment = parse_stored(entry), now()
    row = FlowRow(
        id=new_flow_id(moment),
        key=definition.key,
        document_key=name,
        entry=entry,
        creator=creator,
        created_at=moment,
        updated_at=moment,
        paused=False,
    )
    apply_definition(row, None, definition, moment, imported=imported)
    with transaction() as session:
        session.add(row)


@pytest.fixture(autouse=True)
def flows(admin: Client) -> None:
    with transaction() as session:
        delete_rows(session, "flows")
    add("sales")
    add("by-hand", cron=None)


def test_a_schedule_is_paused_and_resumed(admin: Client) -> None:
    assert admin.payload("PUT", SCHEDULE, json={"paused": True})["paused"] is True
    shown = admin.payload("GET", f"{SCHEDULE}?count=2")
    assert (shown["flow"], shown["paused"], shown["cron"], len(shown["next"])) == ("sales", True, "0 0 * * *", 2)
    assert shown["missed"]["first"][0] == "2026-03-01T00:00:00Z"
    resumed = admin.payload("PUT", SCHEDULE, json={"paused": False, "replay": None})
    assert (resumed["paused"], resumed["missed"]["count"]) == (False, 0)


def test_a_replay_keeps_what_was_missed(admin: Client) -> None:
    admin.payload("PUT", SCHEDULE, json={"paused": True})
    assert admin.payload("PUT", SCHEDULE, json={"paused": False, "replay": True})["missed"]["count"] > 0


@pytest.mark.parametrize("name", ["sales", "Sales", "SALES"])
def test_a_flow_is_found_by_either_spelling(admin: Client, name: str) -> None:
    assert admin.payload("GET", f"/v1/flows/{name}/schedule")["flow"] == "sales"


WRONG: list[tuple[str, str, Any, int, str, str]] = [
    ("PUT", SCHEDULE, {}, 400, "LACK_OF_PARAM", "paused"),
    ("PUT", SCHEDULE, {"paused": "yes"}, 400, "WRONG_PARAM", "paused"),
    ("PUT", SCHEDULE, {"paused": True, "replay": True}, 400, "WRONG_PARAM", "replay"),
    ("PUT", SCHEDULE, {"paused": True, "until": 1}, 400, "WRONG_PARAM", "until"),
    ("PUT", "/v1/flows/by-hand/schedule", {"paused": True}, 409, "UNSUPPORTED_OPERATION", "by-hand"),
    ("PUT", "/v1/flows/none/schedule", {"paused": True}, 404, "OPERATION_TARGET_NOT_FOUND", "none"),
    ("GET", f"{SCHEDULE}?count=0", None, 400, "WRONG_PARAM", "count"),
    ("GET", "/v1/flows/none/schedule", None, 404, "OPERATION_TARGET_NOT_FOUND", "none"),
    ("POST", BACKFILL, {"from": WEEK["from"]}, 400, "LACK_OF_PARAM", "to"),
    ("POST", BACKFILL, {**WEEK, "from": "then"}, 400, "WRONG_PARAM", "from"),
    ("POST", BACKFILL, {**WEEK, "dryRun": 1}, 400, "WRONG_PARAM", "dryRun"),
    ("POST", BACKFILL, {**WEEK, "reverse": True}, 400, "WRONG_PARAM", "reverse"),
    ("POST", "/v1/flows/by-hand/backfill", WEEK, 409, "UNSUPPORTED_OPERATION", "by-hand"),
    ("POST", "/v1/flows/none/backfill", WEEK, 404, "OPERATION_TARGET_NOT_FOUND", "none"),
    ("GET", "/v1/flows/none/backfills", None, 404, "OPERATION_TARGET_NOT_FOUND", "none"),
    ("GET", "/v1/backfills/none", None, 404, "OPERATION_TARGET_NOT_FOUND", "none"),
    ("PUT", "/v1/backfills/none", {"action": "stop"}, 404, "OPERATION_TARGET_NOT_FOUND", "none"),
    ("PUT", "/v1/backfills/none", {"action": "pause"}, 400, "WRONG_PARAM", "action"),
    ("PUT", "/v1/backfills/none", {}, 400, "LACK_OF_PARAM", "action"),
]


@pytest.mark.parametrize(("method", "path", "body", "status", "code", "named"), WRONG)
def test_invalid_requests_are_refused_with_the_reason(
    admin: Client, method: str, path: str, body: Any, status: int, code: str, named: str
) -> None:
    answer = admin(method, path, **({"json": body} if body is not None else {}))
    assert (answer.status_code, answer.json["code"]) == (status, code)
    assert named in answer.json["msg"]


def test_a_dry_run_and_the_backfill_that_follows(admin: Client) -> None:
    admin.payload("PUT", SCHEDULE, json={"paused": True})
    plan = admin.payload("POST", BACKFILL, json={**WEEK, "dryRun": True})
    assert plan["points"] == [f"2026-03-0{day}T00:00:00Z" for day in range(1, 8)]
    assert "backfillID" not in plan
    begun = admin.payload("POST", BACKFILL, json={**WEEK, "stopOnFailure": True})
    assert begun["points"] == plan["points"]
    second = admin("POST", BACKFILL, json=WEEK)
    assert (second.status_code, second.json["code"]) == (409, "UNSUPPORTED_OPERATION")
    path = f"/v1/backfills/{begun['backfillID']}"
    shown = admin.payload("GET", path)
    assert (shown["state"], shown["stopOnFailure"], shown["total"], shown["runner"]) == ("running", True, 7, "admin")
    assert [point["state"] for point in shown["points"]] == ["waiting"] * 7
    assert shown["points"][0]["runID"]
    assert admin.payload("PUT", path, json={"action": "stop"})["state"] == "stopped"
    assert admin.payload("PUT", path, json={"action": "resume"})["state"] == "running"
    (listed,) = admin.payload("GET", "/v1/flows/sales/backfills")
    assert listed["id"] == begun["backfillID"]


def test_no_backfill_reaches_into_the_future(admin: Client) -> None:
    later = (now() + timedelta(days=1)).isoformat()
    answer = admin("POST", BACKFILL, json={**WEEK, "to": later, "dryRun": True})
    assert (answer.status_code, list(answer.json["errors"])) == (400, ["to"])


def test_others_flows_are_not_found_by_tokens_that_see_only_their_own(
    admin: Client, bearer: Callable[..., Client]
) -> None:
    rights = (Privilege.READ_JOB, Privilege.WRITE_JOB)
    ada, bob = bearer(*rights, own_only=True), bearer(*rights, forwho="bob", own_only=True)
    assert ada("GET", SCHEDULE).status_code == 200
    begun = ada.payload("POST", BACKFILL, json=WEEK)
    for method, path, body in (
        ("GET", SCHEDULE, None),
        ("PUT", SCHEDULE, {"paused": True}),
        ("POST", BACKFILL, WEEK),
        ("GET", "/v1/flows/sales/backfills", None),
        ("GET", f"/v1/backfills/{begun['backfillID']}", None),
        ("PUT", f"/v1/backfills/{begun['backfillID']}", {"action": "stop"}),
    ):
        assert bob(method, path, **({"json": body} if body else {})).status_code == 404, path


def test_reading_and_changing_need_their_privileges(bearer: Callable[..., Client]) -> None:
    reader, writer = bearer(Privilege.READ_JOB), bearer(Privilege.WRITE_JOB)
    assert reader("GET", SCHEDULE).status_code == 200
    assert reader("PUT", SCHEDULE, json={"paused": True}).status_code == 403
    assert reader("POST", BACKFILL, json=WEEK).status_code == 403
    assert writer("GET", SCHEDULE).status_code == 403
    assert writer("PUT", SCHEDULE, json={"paused": True}).status_code == 200
