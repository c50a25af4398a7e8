"""The feed of events over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from api.streaming import StreamSlots
from pipeline_core.auth.privileges import Privilege
from pipeline_core.jobs.feed_tail import feed_tail
from tests import builders
from tests.waiting import HANG_SECONDS, wait_for


def test_a_client_goes_on_with_the_cursor_of_the_answer_before(admin: Any) -> None:
    jobs = [admin.submit(name=f"job-{n}") for n in range(3)]
    first = admin("GET", "/v1/events?limit=2")
    assert [event["jobName"] for event in first.json["payload"]] == ["job-0", "job-1"]
    assert first.headers["X-Next-Cursor"] == str(first.json["payload"][-1]["position"])
    second = admin("GET", f"/v1/events/?after={first.headers['X-Next-Cursor']}")
    assert [event["jobID"] for event in second.json["payload"]] == jobs[2:]
    end = admin("GET", f"/v1/events?after={second.headers['X-Next-Cursor']}")
    assert end.json["payload"] == []
    assert end.headers["X-Next-Cursor"] == second.headers["X-Next-Cursor"]


def test_an_own_only_token_sees_only_events_of_its_users_jobs(admin: Any, bearer: Callable[..., Any]) -> None:
    own = admin.submit(user="ada")
    admin.submit(user="bob")
    events = bearer(Privilege.READ_JOB, own_only=True).payload("GET", "/v1/events")
    assert [event["jobID"] for event in events] == [own]
    assert {event["userID"] for event in bearer(Privilege.READ_JOB).payload("GET", "/v1/events")} == {"ada", "bob"}


@pytest.mark.parametrize(
    "query",
    [
        *("after=-1", "after=x", f"after={2**63}", "after=LATEST", "limit=0", "limit=1001", "limit=", "pageSize=3"),
        *("wait=26", "wait=-1", "wait=1.5", "kind=job", "kind="),
    ],
)
def test_a_bad_query_is_refused(admin: Any, query: str) -> None:
    answer = admin("GET", f"/v1/events?{query}")
    assert (answer.status_code, answer.json["code"]) == (400, "WRONG_PARAM")
    assert query.split("=")[0] in answer.json["errors"]


def test_the_feed_begins_at_its_end_for_whoever_asks_for_the_latest(admin: Any) -> None:
    admin.submit()
    latest = admin("GET", "/v1/events?after=latest")
    assert latest.json["payload"] == []
    job_id = admin.submit()
    (event,) = admin.payload("GET", f"/v1/events?after={latest.headers['X-Next-Cursor']}")
    assert event["jobID"] == job_id


def test_a_reader_that_waits_is_answered_when_something_comes(admin: Any) -> None:
    start = admin("GET", "/v1/events?after=latest").headers["X-Next-Cursor"]
    with ThreadPoolExecutor(5) as pool:
        waiting = [pool.submit(admin, "GET", f"/v1/events?after={start}&wait=25") for _ in range(5)]
        wait_for(lambda: feed_tail()._waiting == 5, "five readers that wait")
        job_id = admin.submit()
        answers = [waits.result(HANG_SECONDS) for waits in waiting]
    assert {event["jobID"] for answer in answers for event in answer.json["payload"]} == {job_id}
    assert len({answer.headers["X-Next-Cursor"] for answer in answers}) == 1


def test_a_reader_that_waits_in_vain_is_answered_with_nothing(admin: Any) -> None:
    start = admin("GET", "/v1/events?after=latest").headers["X-Next-Cursor"]
    answer = admin("GET", f"/v1/events?after={start}&wait=1")
    assert (answer.json["payload"], answer.headers["X-Next-Cursor"]) == ([], start)
    assert "X-Waiters-Full" not in answer.headers


def test_what_a_waiting_reader_may_not_see_does_not_end_its_wait(admin: Any, bearer: Callable[..., Any]) -> None:
    ada = bearer(Privilege.READ_JOB, own_only=True)
    start = admin("GET", "/v1/events?after=latest").headers["X-Next-Cursor"]
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(ada, "GET", f"/v1/events?after={start}&wait=25")
        wait_for(lambda: feed_tail()._waiting == 1, "a reader that waits")
        admin.submit(user="bob")
        seen = int(admin("GET", "/v1/events?after=latest").headers["X-Next-Cursor"])
        wait_for(lambda: feed_tail()._seen and feed_tail()._seen.top >= seen, "the event of another's job to be seen")
        own = admin.submit(user="ada")
        answer = waiting.result(HANG_SECONDS)
    assert [event["jobID"] for event in answer.json["payload"]] == [own]


def test_one_that_finds_all_places_taken_is_answered_at_once_and_is_said_so(
    app: Any, admin: Any, bearer: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    slots = StreamSlots("waiters", 2)
    monkeypatch.setattr("api.resources.events._waiters", lambda: slots)
    slots.take("admin")
    answer = admin("GET", "/v1/events?after=latest&wait=25")
    assert (answer.json["payload"], answer.headers["X-Waiters-Full"]) == ([], "true")
    slots.take("ada")
    assert bearer(Privilege.READ_JOB)("GET", "/v1/events?wait=25").headers["X-Waiters-Full"] == "true"


def test_the_end_of_the_process_ends_the_wait(admin: Any) -> None:
    start = admin("GET", "/v1/events?after=latest").headers["X-Next-Cursor"]
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(admin, "GET", f"/v1/events?after={start}&wait=25")
        wait_for(lambda: feed_tail()._waiting == 1, "a reader that waits")
        feed_tail().close()
        assert waiting.result(HANG_SECONDS).json["payload"] == []


def test_kinds_may_be_chosen(admin: Any) -> None:
    admin.submit()
    admin.payload("POST", "/v1/flows", json=builders.flow_entry("sales", {"load": []}))
    run_id = admin.payload("POST", "/v1/flows/sales/run")["runID"]
    assert {event["kind"] for event in admin.payload("GET", "/v1/events?kind=state,run")} == {"state", "run"}
    assert [event["kind"] for event in admin.payload("GET", "/v1/events")] == ["state"]
    (run,) = admin.payload("GET", "/v1/events?kind=run,delivery")
    assert (run["runID"], run["jobID"], run["flow"], run["state"]) == (run_id, None, "sales", "waiting")
    assert (run["previousState"], run["tasks"], run["userID"]) == ("", [], "admin")


def test_the_end_of_a_run_is_in_the_feed_with_the_tasks_that_changed(admin: Any, bearer: Callable[..., Any]) -> None:
    admin.payload("POST", "/v1/flows", json=builders.flow_entry("sales", {"load": [], "report": ["load"]}))
    run_id = admin.payload("POST", "/v1/flows/sales/run")["runID"]
    admin.payload("PUT", f"/v1/runs/{run_id}/stop", json={"reason": "enough"})
    _, stopped = admin.payload("GET", "/v1/events?kind=run")
    assert (stopped["state"], stopped["previousState"], stopped["reason"]) == ("stopped", "waiting", "enough")
    assert [task["name"] for task in stopped["tasks"]] == ["load", "report"]
    assert stopped["tasksChanged"] == 2
    assert bearer(Privilege.READ_JOB, own_only=True).payload("GET", "/v1/events?kind=run") == []
