"""Pages of the packets of past jobs, with what was answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pipeline_core.auth.privileges import Privilege
from pipeline_core.common.clock import now
from pipeline_core.jobs import claims, cursor, past_packets
from pipeline_core.stages.names import Stage
from pipeline_core.stages.outcomes import ClaimedStep, Stop, TrailEntry, TrailOutcome
from tests.builders import taskset

KEY = "AccessGate.quota.tests"
PAGES = "/v1/job/packets?stage=gates"


@pytest.fixture
def stopped(admin: Any) -> Callable[..., str]:
    """Submits a job that the gate stops, or that it did not answer about."""
    plugins = [{"pluginType": "AccessGate", "callAddress": "http://127.0.0.1:9/"}]
    admin.payload(
        "POST", "/v1/features", json={"name": "quota", "author": "tests", "enabled": True, "plugins": plugins}
    )

    def submit(user: str = "ada", outcome: TrailOutcome = TrailOutcome.ANSWERED) -> str:
        body = {"userID": user, "jobName": "mnist", "jobKind": "TaskSet", "job": taskset()}
        job_id = str(admin.payload("POST", "/v1/job", json=body)["jobID"])
        step = claims.claim(job_id, 0, Stage.GATES, "worker")
        assert isinstance(step, ClaimedStep)
        entry = TrailEntry(plugin_key=KEY, outcome=outcome, started_at=now(), decision="stop", reason="full")
        cursor.finish(step, Stop(trail=[entry], reason="full"))
        return job_id

    return submit


def all_pages(client: Any, query: str = "") -> list[list[str]]:
    """The IDs of each page until the last one."""
    found, after = [], ""
    while True:
        payload = client.payload("GET", f"{PAGES}{query}{after}")
        found.append([job["jobID"] for job in payload["jobs"]])
        if payload["cursor"] is None:
            return found
        after = f"&cursor={payload['cursor']}"


def test_a_job_has_its_packet_and_the_answer(admin: Any, stopped: Callable[..., str]) -> None:
    job_id = stopped()
    (job,) = admin.payload("GET", PAGES)["jobs"]
    assert job["packet"] == admin.payload("GET", f"/v1/job/packet/{job_id}?stage=gates")
    assert admin("GET", f"/v1/job/packet/{job_id}?stage=translate").status_code == 404, "a TaskSet is not translated"
    answer = {
        "plugin": KEY,
        "outcome": "answered",
        "decision": "stop",
        "reason": "full",
        "factors": None,
        "patch": None,
    }
    assert (job["jobID"], job["answers"], job["problem"]) == (job_id, [answer], "")
    assert admin.payload("GET", "/v1/job/packets?stage=bind")["jobs"] == []
    assert admin.payload("GET", f"{PAGES}&plugin=AccessGate.other.tests")["jobs"] == []


@pytest.mark.parametrize(
    ("limit", "most", "longest"), [("MOST_JOBS", 2, 2), ("MOST_BYTES", 1, 1), ("LOOKED_AT", 3, 3), ("LOOKED_AT", 1, 1)]
)
def test_a_page_is_bounded_and_the_next_goes_on(
    limit: str,
    most: int,
    longest: int,
    admin: Any,
    stopped: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ids = []
    for number in range(5):
        ids.append(stopped())
        if number in (1, 3):
            stopped(outcome=TrailOutcome.FAILED)
    ids.reverse()
    monkeypatch.setattr(past_packets, limit, most)
    pages = all_pages(admin)
    assert [job_id for page in pages for job_id in page] == ids
    assert max(map(len, pages)) <= longest


def test_an_own_only_token_is_shown_its_own_jobs(
    admin: Any, bearer: Callable[..., Any], stopped: Callable[..., str]
) -> None:
    mine, other = stopped("ada"), stopped("bob")
    assert all_pages(bearer(Privilege.READ_JOB, own_only=True)) == [[mine]]
    assert all_pages(admin, "&userID=bob") == [[other]]


@pytest.mark.parametrize("query", ["", "?stage=launch", "?stage=gates&cursor=j1", "?stage=gates&cursor="])
def test_a_wrong_query_is_refused(admin: Any, query: str) -> None:
    assert admin("GET", f"/v1/job/packets{query}").status_code == 400
