"""Rules of the contract that concern several resources of the API."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select, update

from pipeline_core.common.clock import now
from pipeline_core.database import transaction
from pipeline_core.database.models import Delivery, Event, Job
from pipeline_core.hooks import deliveries
from tests.builders import feature, plugin, role, taskset_of


@pytest.mark.parametrize(
    ("state", "status"),
    [("waiting", 409), ("suspended", 409), ("running", 409), ("succeeded", 409), ("failed", 200), ("stopped", 200)],
)
def test_only_failed_and_stopped_jobs_can_be_retried(admin: Any, state: str, status: int) -> None:
    header = {"type": "debug", "nested": [1]}
    job_id = admin.submit(header=header)
    with transaction() as session:
        session.execute(update(Job).where(Job.id == job_id).values(state=state))
    answer = admin("POST", f"/v1/job/retry/{job_id}")
    assert answer.status_code == status
    if status == 409:
        assert answer.json["code"] == "UNSUPPORTED_OPERATION"
        assert state in answer.json["msg"]
        return
    again = answer.json["payload"]["jobID"]
    detail = admin.payload("GET", f"/v1/job/detail/{again}")["job"]
    assert (detail["retryOf"], detail["state"], detail["name"], detail["userID"]) == (job_id, "waiting", "mnist", "ada")
    assert admin.payload("GET", f"/v1/job/config/{again}") == admin.payload("GET", f"/v1/job/config/{job_id}")
    assert admin.payload("GET", f"/v1/job/detail/{job_id}")["job"]["state"] == state


@pytest.mark.parametrize("state", ["succeeded", "failed"])
@pytest.mark.parametrize("call", ["stop", "resume"])
def test_what_has_ended_by_itself_is_neither_stopped_nor_resumed(admin: Any, state: str, call: str) -> None:
    job_id = admin.submit()
    with transaction() as session:
        session.execute(update(Job).where(Job.id == job_id).values(state=state))
    answer = admin("PUT", f"/v1/job/{call}/{job_id}")
    assert (answer.status_code, answer.json["code"]) == (409, "UNSUPPORTED_OPERATION")


def test_a_stop_is_in_the_audit_log_with_its_reason(admin: Any) -> None:
    job_id = admin.submit()
    admin.payload("PUT", f"/v1/job/stop/{job_id}", json={"reason": "wrong data"})
    (entry,) = admin.payload("GET", "/v1/audit")
    assert (entry["action"], entry["target"], entry["reason"], entry["actor"]) == (
        "job.stop",
        job_id,
        "wrong data",
        "admin",
    )
    assert (entry["before"], entry["after"]) == ({"state": "waiting"}, {"state": "stopped"})


def test_a_tasksets_name_becomes_the_jobs_id_and_a_job_id_is_a_dns_label(admin: Any) -> None:
    job = taskset_of(role("w"), metadata={"name": "mine"})
    first, second = (admin.submit(kind="TaskSet", job=job) for _ in range(2))
    assert admin.payload("GET", f"/v1/job/taskset/{first}")["metadata"]["name"] == first
    assert admin.payload("GET", f"/v1/job/config/{first}")["metadata"]["name"] == "mine"
    assert first < second
    assert len(first) == 27
    assert first == first.lower()
    assert first[0] == "j"
    assert first.isalnum()


@pytest.mark.parametrize(
    "selector",
    [
        {"conditions": [{"name": "a", "key": "k"}], "expression": "a"},
        {"conditions": [{"name": "", "key": "k", "expect": "x"}], "expression": "a"},
        {"conditions": [{"name": "a", "key": None, "expect": "x"}], "expression": "a"},
        {"conditions": [{"name": "a", "key": "k", "expect": "x"}]},
        {"conditions": [{"name": "a", "key": "k", "expect": "/(/"}], "expression": "a"},
        {"expression": "undeclared"},
        {"expression": "a &&"},
        {"states": ["*"]},
        {"surprise": 1},
    ],
)
@pytest.mark.parametrize("place", ["feature", "plugin"])
def test_inside_a_selector_every_fault_is_a_wrong_parameter(admin: Any, selector: Any, place: str) -> None:
    body = feature("f", jobSelector=selector) if place == "feature" else feature("f", plugin(jobSelector=selector))
    answer = admin("POST", "/v1/features", json=body)
    assert (answer.status_code, answer.json["code"]) == (400, "WRONG_PARAM"), answer.text
    assert all("jobSelector" in path for path in answer.json["errors"])
    assert admin.payload("GET", "/v1/features/list/all") == []


def test_all_stands_for_everyone_in_any_case_and_is_nobodys_name(admin: Any) -> None:
    admin.payload("POST", "/v1/features", json=feature("f"))
    for name in ("all", "ALL", "All"):
        assert [found["name"] for found in admin.payload("GET", f"/v1/features/list/{name}")] == ["f"]
        for field in ("name", "author"):
            answer = admin("POST", "/v1/features", json=feature(**{"name": "f", field: name}))
            assert (answer.status_code, answer.json["code"]) == (400, "WRONG_PARAM")


@pytest.mark.parametrize("enabled", [None, False, "left out"])
def test_a_feature_is_off_unless_the_request_says_true(admin: Any, enabled: Any) -> None:
    fields = {} if enabled == "left out" else {"enabled": enabled}
    admin.payload("POST", "/v1/features", json=feature("f", **fields))
    assert admin.payload("GET", "/v1/features/detail/f")["enabled"] is False
    admin.payload("PUT", "/v1/features/turn-on/f")
    admin.payload("POST", "/v1/features", json=feature("f", enabled=False))
    assert admin.payload("GET", "/v1/features/detail/f")["enabled"] is True


def test_the_password_is_no_token_and_admin_no_privilege(admin: Any) -> None:
    for privileges in (["admin"], ["read_job", "admin"], ["READ_JOB"]):
        answer = admin("POST", "/v1/tokens", json={"privileges": privileges, "forwho": "ada"})
        assert (answer.status_code, answer.json["code"]) == (400, "WRONG_PARAM")
    answer = admin("PUT", "/v1/tokens/admin", json={"token": "a" * 24})
    assert (answer.status_code, answer.json["code"]) == (400, "WRONG_PARAM")


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("read-job", "read_job"),
        ("write-job", "write_job"),
        ("read-plugin", "read_feature"),
        ("write-plugin", "write_feature"),
        ("register-plugin", "write_feature"),
    ],
)
def test_the_other_names_of_privileges_are_understood(admin: Any, given: str, stored: str) -> None:
    admin.payload("POST", "/v1/tokens", json={"privileges": [given], "forwho": "ada"})
    assert [token["privileges"] for token in admin.payload("GET", "/v1/tokens")] == [[stored]]


@pytest.mark.parametrize("query", ["name=%ff", "name=a%c3%28", "%ff=x", "name=%ed%a0%80"])
def test_a_query_of_other_bytes_than_utf8_is_refused(admin: Any, query: str) -> None:
    answer = admin("GET", f"/v1/job/list?{query}")
    assert (answer.status_code, answer.json["code"]) == (400, "WRONG_PARAM")
    assert "UTF-8" in answer.json["msg"]
    assert admin("GET", "/v1/job/list?name=%c3%a9").status_code == 200


def test_nothing_is_called_by_other_bytes_than_utf8(admin: Any) -> None:
    # Flask's client would send %ff as it stands, a server as this byte.
    answer = admin("GET", "/v1/job/detail/x", environ_overrides={"PATH_INFO": "/v1/job/detail/\xff"})
    assert answer.status_code == 404
    assert "nothing has such a name" in answer.json["msg"]


def test_no_answer_lets_other_origins_in(admin: Any) -> None:
    answer = admin("GET", "/v1/job/list", headers={"Origin": "https://elsewhere.example"})
    assert not [name for name, _ in answer.headers if name.startswith("Access-Control")]
    assert answer.headers["Cache-Control"] == "no-store"


def test_a_delivery_past_its_time_is_exhausted_and_can_be_sent_again(admin: Any) -> None:
    job_id = admin.submit()
    past = now() - timedelta(seconds=1)
    for name in ("tired", "fresh", "dropped", "refused"):
        hook = {"pluginType": "LifeHook", "callAddress": "http://127.0.0.1:9/"}
        feature = {"name": name, "author": "platform", "plugins": [hook]}
        assert admin("POST", "/v1/features", json=feature).status_code == 200
    with transaction() as session:
        event_id = session.scalar(select(Event.id).where(Event.job_id == job_id))
        for name, status, give_up_at in (
            ("tired", "waiting", past),
            ("fresh", "waiting", past + timedelta(hours=1)),
            ("dropped", "dropped", past),
            ("refused", "exception", past),
        ):
            session.add(Delivery(id=name, event_id=event_id, subject_id=job_id, sequence=1,
                                 plugin_key=f"LifeHook.{name}.platform", attempts=3, last_answer="RE",
                                 created_at=past, next_at=past, give_up_at=give_up_at,
                                 status=status))  # fmt: skip
    assert deliveries.give_up() == 1

    def with_status(status: str) -> set[str]:
        return {found["id"] for found in admin.payload("GET", f"/v1/hooks/deliveries?status={status}")}

    assert (with_status("exhausted"), with_status("waiting")) == ({"tired"}, {"fresh"})
    assert with_status("Exhausted, exception") == {"tired", "refused"}
    for name, status in (("tired", 200), ("refused", 200), ("fresh", 409), ("dropped", 409), ("nothing", 404)):
        assert admin("POST", f"/v1/hooks/redeliver/{name}").status_code == status, name
    assert with_status("waiting") == {"tired", "fresh", "refused"}
    refused = admin("GET", "/v1/hooks/deliveries?status=lost")
    assert (refused.status_code, refused.json["code"]) == (400, "WRONG_PARAM")
