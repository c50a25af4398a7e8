"""Which stored jobs a feature would take part in, over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pipeline_core.auth.privileges import Privilege
from pipeline_core.jobs import what_if
from tests.builders import taskset

ONLY_ADA = {"conditions": [{"name": "ada", "key": "userID", "expect": "ada"}], "expression": "ada"}


def feature(selector: Any = None, name: str = "quota", *types: str) -> dict[str, Any]:
    plugins = [{"pluginType": type, "callAddress": "http://127.0.0.1:9/"} for type in types or ("AccessGate",)]
    return {"name": name, "author": "tests", "plugins": plugins, "jobSelector": selector}


def submit(admin: Any, user: str, name: str = "mnist", **header: Any) -> str:
    job = {"userID": user, "jobName": name, "jobKind": "TaskSet", "job": taskset(), "header": header}
    return str(admin.payload("POST", "/v1/job", json=job)["jobID"])


def asked(client: Any, body: Any, query: str = "") -> Any:
    return client.payload("POST", f"/v1/features/what-if{query}", json=body)


def test_stored_jobs_are_compared_with_what_is_registered(admin: Any) -> None:
    ada, bob = submit(admin, "ada"), submit(admin, "bob")
    (gate,) = asked(admin, feature(ONLY_ADA))["plugins"]
    assert (gate["matched"], gate["gained"], gate["lost"], gate["gainedJobs"]) == (1, 1, 0, [ada])
    admin.payload("POST", "/v1/features", json=feature())
    found = asked(admin, feature(ONLY_ADA), f"?jobID={bob}")
    (gate,) = found["plugins"]
    assert (found["jobs"], found["complete"]) == (2, True)
    assert (gate["matched"], gate["gained"], gate["lost"], gate["lostJobs"]) == (1, 0, 1, [bob])
    assert gate["explanation"]["conditions"] == [
        {"name": "ada", "key": "userID", "expect": "ada", "found": "bob", "matched": False}
    ]
    assert admin.payload("GET", "/v1/features/detail/quota")["jobSelector"] is None, "nothing was registered"


def test_what_a_registration_would_refuse_of_shadows_is_refused(admin: Any) -> None:
    body = feature(None, "quota-2")
    body["plugins"][0] |= {"mode": "shadow", "shadowOf": "AccessGate.nowhere.tests"}
    refusals = [admin("POST", path, json=body) for path in ("/v1/features", "/v1/features/what-if")]
    assert [refusal.status_code for refusal in refusals] == [400, 400]
    messages = [refusal.json["msg"] for refusal in refusals]
    assert messages[0] == messages[1]
    assert "there is no plugin" in messages[0]


def test_a_plugin_that_the_feature_would_lose_is_listed(admin: Any) -> None:
    submit(admin, "ada")
    admin.payload("POST", "/v1/features", json=feature(None, "quota", "AccessGate", "LifeHook"))
    gate, hook = asked(admin, feature())["plugins"]
    assert (gate["pluginType"], gate["removed"], gate["lost"]) == ("AccessGate", False, 0)
    assert (hook["pluginType"], hook["removed"], hook["lost"]) == ("LifeHook", True, 1)


def test_a_span_of_time_bounds_the_jobs_and_more_than_the_limit_are_said(
    admin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(what_if, "_PAGE", 2)
    ids = [submit(admin, "ada") for _ in range(5)]
    assert asked(admin, feature())["jobs"] == 5
    assert asked(admin, feature(), "?endAt=1")["jobs"] == 0
    monkeypatch.setattr(what_if, "MOST_JOBS", 3)
    found = asked(admin, feature())
    assert (found["jobs"], found["complete"]) == (3, False)
    assert found["plugins"][0]["gainedJobs"] == ids[:1:-1], "the latest"


def test_selectors_look_at_stored_headers_as_at_those_of_new_jobs(admin: Any) -> None:
    dotted = submit(admin, "ada", **{"labels.team": "vision"})
    nested = submit(admin, "ada", labels={"team": "vision", "other": 1})
    nested_null = submit(admin, "ada", labels={"team": None})
    number = submit(admin, "ada", "n\u00e9\U0001f680", labels={"team": 1.50}, note="\u0001")
    none = submit(admin, "ada", labels=["team"])
    for expect, ids in (
        ("vision", [nested, dotted]),
        ("/^$/", [none, nested_null]),
        ("1.5", [number]),
        (".+", [number, nested, dotted]),
    ):
        condition = {"name": "team", "key": "labels.team", "expect": expect}
        found = asked(admin, feature({"conditions": [condition], "expression": "team && jobName && jobID"}))
        assert found["plugins"][0]["gainedJobs"] == sorted(ids, reverse=True), expect
    named = asked(
        admin, feature({"conditions": [{"name": "id", "key": "jobID", "expect": nested}], "expression": "id"})
    )
    assert named["plugins"][0]["gainedJobs"] == [nested]


def test_an_own_only_token_learns_of_its_own_jobs_alone(admin: Any, bearer: Callable[..., Any]) -> None:
    submit(admin, "ada")
    bobs = submit(admin, "bob")
    ada = bearer(Privilege.READ_JOB, own_only=True)
    found = asked(ada, feature())
    assert (found["jobs"], [group["userID"] for group in found["plugins"][0]["byUser"]]) == (1, ["ada"])
    assert ada("POST", f"/v1/features/what-if?jobID={bobs}", json=feature()).status_code == 404


def test_a_process_looks_through_the_jobs_for_one_request_at_a_time(admin: Any) -> None:
    with what_if._one_at_a_time():
        answer = admin("POST", "/v1/features/what-if", json=feature())
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
    assert asked(admin, feature())["jobs"] == 0


def test_a_wrong_selector_is_refused_by_its_path(admin: Any) -> None:
    answer = admin("POST", "/v1/features/what-if", json=feature({"conditions": [], "expression": "nobody"}))
    assert answer.status_code == 400
    assert "jobSelector.expression" in answer.get_json()["errors"]
