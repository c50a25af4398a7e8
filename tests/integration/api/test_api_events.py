"""The feed of events over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pipeline_core.auth.privileges import Privilege


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
    "query", ["after=-1", "after=x", f"after={2**63}", "limit=0", "limit=1001", "limit=", "pageSize=3"]
)
def test_a_bad_query_is_refused(admin: Any, query: str) -> None:
    answer = admin("GET", f"/v1/events?{query}")
    assert (answer.status_code, answer.json["code"]) == (400, "WRONG_PARAM")
    assert query.split("=")[0] in answer.json["errors"]
