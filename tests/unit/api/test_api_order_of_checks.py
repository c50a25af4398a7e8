"""401, then 403, then 413 and 415, then 400; what comes after needs a database."""

from __future__ import annotations

import json
from typing import Any

import pytest
from flask.testing import FlaskClient

from api import bodies
from pipeline_core.errors import NotFound
from pipeline_core.jobs import control

HUGE = b"x" * (bodies.MAX_BYTES + 1)


def put(client: FlaskClient, token: str | None, body: bytes, media_type: str = "application/json") -> int:
    headers = {"Content-Type": media_type, **({"token": token} if token else {})}
    return client.put("/v1/job/stop/nothing?unknown=1", data=body, headers=headers).status_code


def test_each_check_comes_before_the_next(client: FlaskClient) -> None:
    wrong: dict[str, Any] = {"body": HUGE, "media_type": "text/plain"}
    assert put(client, None, **wrong) == 401
    assert put(client, "nonsense", **wrong) == 401
    assert put(client, "read_job", **wrong) == 403
    assert put(client, "write_job", **wrong) == 413
    assert put(client, "write_job", b"{", "text/plain") == 415
    assert put(client, "write_job", b"{") == 400


def test_a_bad_body_is_told_before_a_missing_target(client: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(*_: Any, **__: Any) -> None:
        raise NotFound

    monkeypatch.setattr(control, "stop", nowhere)
    headers = {"token": "write_job"}
    assert client.put("/v1/job/stop/nothing", json={"reason": 1}, headers=headers).status_code == 400
    assert client.put("/v1/job/stop/nothing", json={"reason": "1"}, headers=headers).status_code == 404


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"jobID": "another"}, "jobID"),
        ({"jobID": ""}, "jobID"),
        ({"reason": "x" * 1001}, "reason"),
        ({"reason": ["x"]}, "reason"),
        ({"gate": "g"}, "gate"),
        ({"surprise": 1}, "surprise"),
        ([], None),
        (None, None),
        ("reason", None),
    ],
)
def test_a_note_with_a_fault_is_refused_and_the_field_is_named(
    client: FlaskClient, body: Any, field: str | None
) -> None:
    headers = {"token": "write_job", "Content-Type": "application/json"}
    answer = client.put("/v1/job/stop/j1", data=json.dumps(body), headers=headers)
    assert (answer.status_code, answer.json["code"]) == (400, "WRONG_PARAM")
    assert list(answer.json.get("errors", {})) == ([field] if field else [])


@pytest.mark.parametrize(
    "body", [None, {}, {"reason": ""}, {"jobID": "j1"}, {"jobID": "j1", "reason": "x" * 1000}, {"sequence": 7}]
)
def test_a_note_is_optional(client: FlaskClient, monkeypatch: pytest.MonkeyPatch, body: Any) -> None:
    stopped = []
    monkeypatch.setattr(control, "stop", lambda job_id, actor, *, reason: stopped.append((job_id, reason)))
    sent = {} if body is None else {"json": body}
    answer = client.put("/v1/job/stop/j1/", headers={"token": "write_job"}, **sent)
    assert answer.json == {"code": "OPERATION_SUCCEEDED", "msg": "The operation succeeded."}
    assert stopped == [("j1", (body or {}).get("reason", ""))]


def test_a_resume_may_name_the_gate(client: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    resumed = []
    monkeypatch.setattr(
        control, "resume", lambda job_id, actor, *, reason, gate: resumed.append((job_id, reason, gate))
    )
    client.put("/v1/job/resume/j1", json={"gate": "AccessGate.a.b", "reason": "go"}, headers={"token": "write_job"})
    client.put("/v1/job/resume/j1", headers={"token": "write_job"})
    assert resumed == [("j1", "go", "AccessGate.a.b"), ("j1", "", None)]
