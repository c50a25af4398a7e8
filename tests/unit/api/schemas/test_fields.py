from __future__ import annotations

import pytest
from flask.testing import FlaskClient
from werkzeug.datastructures import MultiDict

from api.schemas.jobs import JobList, LogQueryParameters
from pipeline_core.errors import WrongParameter
from pipeline_core.states import FINAL, JobState

BAD = [
    "pageSize=0",
    "pageSize=501",
    "pageSize=",
    "pageSize=2.5",
    "pageSize=1_0",
    "pageSize=+5",
    "pageSize=%D9%A3",
    "pageNumber=0",
    "pageNumber=-1",
    "pageNumber=99999999999999999999999999",
    "order=up",
    "order=",
    "order=DESC",
    "state=done",
    "state=",
    "state=running,",
    "stage=cooking",
    "userID=",
    "userID=a,,b",
    "kind=",
    "name=",
    "suspendedBy=",
    "startAt=yesterday",
    "startAt=-1",
    "startAt=1.5",
    "startAt=99999999999999",
    "endAt=2026-01-01",
    "cursor=",
    "cursor=nonsense",
    "cursor=%00",
    "pageNumber=1&cursor=ajAxbThtc2F4d21xOWtibmI2cm1nMDZoeGh0LjIuMQ",
    "limit=5",
    "pagesize=5",
    "state=running&state=failed",
    "name=a%00b",
]


@pytest.mark.parametrize("query", BAD)
def test_a_bad_or_unknown_parameter_is_refused_and_named(client: FlaskClient, query: str) -> None:
    answer = client.get(f"/v1/job/list?{query}", headers={"token": "read_job"})
    assert (answer.status_code, answer.json["code"]) == (400, "WRONG_PARAM")
    assert query.split("=")[0] in answer.json["msg"]


@pytest.mark.parametrize("query", ["pageNumber=1", "order=asc", "cursor=x"])
def test_a_count_takes_no_paging_parameters(client: FlaskClient, query: str) -> None:
    assert client.get(f"/v1/job/count?{query}", headers={"token": "read_job"}).status_code == 400


@pytest.mark.parametrize(
    "path", ["/v1/job/detail/j1?x=1", "/v1/version?x=1", "/healthz?x=1", "/v1/features/detail/a?x="]
)
def test_routes_without_parameters_take_none(client: FlaskClient, path: str) -> None:
    answer = client.get(path, headers={"token": "admin"})
    assert (answer.status_code, answer.json["code"]) == (400, "WRONG_PARAM")
    assert answer.json["errors"] == {"x": ["There is no such parameter."]}


def test_the_message_names_the_parameter_and_its_value(client: FlaskClient) -> None:
    answer = client.get("/v1/job/list?pageSize=many", headers={"token": "read_job"})
    assert answer.json == {
        "code": "WRONG_PARAM",
        "msg": 'The query parameter pageSize is "many": It must be a whole number from 1 to 500.',
        "errors": {"pageSize": ["It must be a whole number from 1 to 500."]},
    }


@pytest.mark.parametrize(
    ("text", "states"),
    [
        ("running", {JobState.RUNNING}),
        ("Running, FAILED", {JobState.RUNNING, JobState.FAILED}),
        ("Completed", FINAL),
        ("preparing,pending", {JobState.WAITING}),
    ],
)
def test_states_are_accepted_in_any_case_and_by_alias(text: str, states: set[JobState]) -> None:
    assert JobList().read(MultiDict({"state": text}))["state"] == states


@pytest.mark.parametrize("text", ["2026-01-31T12:00:00Z", "2026-01-31T13:00:00+01:00", "1769860800", "1769860800.0"])
def test_since_is_rfc_3339_or_seconds(text: str) -> None:
    since = LogQueryParameters().read(MultiDict({"since": text}))["since"]
    assert since.isoformat() == "2026-01-31T12:00:00+00:00"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("since", "2026-01-31"),
        ("since", "2026-01-31T12:00:00"),
        ("since", "2026-02-30T12:00:00Z"),
        ("since", "0001-01-01T00:00:00+23:00"),
        ("since", "999999999999"),
        ("since", "now"),
        ("follow", "yes"),
        ("follow", "1"),
        ("tail", "-1"),
        ("replica", "first"),
        ("attempt", "-1"),
        ("task", ""),
    ],
)
def test_bad_log_parameters_are_refused(name: str, text: str) -> None:
    with pytest.raises(WrongParameter, match=f"parameter {name} is"):
        LogQueryParameters().read(MultiDict({name: text}))
