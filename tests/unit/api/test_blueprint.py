"""The checks of a request: 401, then 403, 413 and 415, then 400; what comes after needs a database."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from flask.testing import FlaskClient
from gunicorn.http.errors import ChunkMissingTerminator, InvalidChunkSize

from api import blueprint
from pipeline_core.errors import NotFound, WrongParameter
from pipeline_core.jobs import control

REFUSED = {
    "nothing": (b"", "is empty"),
    "no JSON": (b"{'a': 1}", "is not JSON"),
    "a trailing comma": (b'{"a": 1,}', "is not JSON"),
    "two documents": (b"{} {}", "is not JSON"),
    "a raw control character": (b'{"a": "\x01"}', "is not JSON"),
    "a byte order mark": (b"\xef\xbb\xbf{}", "byte order mark"),
    "UTF-16": ('{"a": 1}'.encode("utf-16"), "not UTF-8"),
    "Latin-1": ('{"a": "é"}'.encode("latin-1"), "not UTF-8"),
    "an encoded surrogate": (b'{"a": "\xed\xa0\x80"}', "not UTF-8"),
    "NaN": (b'{"a": NaN}', "has NaN"),
    "infinity": (b'{"a": -Infinity}', "has -Infinity"),
    "a number beyond all bounds": (b'{"a": 1e999}', "1e999"),
    "an endless integer": (b'{"a": ' + b"9" * 5000 + b"}", "digits"),
    "a key twice": (b'{"a": {"b": 1, "b": 1}}', 'the key "b" twice'),
    "half a surrogate pair": (b'{"a": ["\\ud800"]}', "surrogate"),
    "half a pair in a key": (b'{"\\udc00": 1}', "surrogate"),
    "NUL": (b'{"a": "x\\u0000y"}', "NUL"),
    "too many levels": (b"[" * 101 + b"]" * 101, "100 levels"),
    "far too many levels": (b"[" * 200_000 + b"]" * 200_000, "100 levels"),
    "far too many levels of objects": (b'{"a":' * 50_000 + b"1" + b"}" * 50_000, "100 levels"),
}

TAKEN = {
    "levels up to the limit": b"[" * 100 + b"]" * 100,
    "many brackets side by side": b"[" + b"[]," * 500 + b"[]]",
    "an escaped pair": b'{"a": "\\ud83d\\ude00"}',
    "any other escape": b'{"a": "\\u00e9"}',
    "large integers": b'{"a": 123456789012345678901234567890}',
}


@pytest.mark.parametrize(("raw", "why"), REFUSED.values(), ids=REFUSED.keys())
def test_ambiguous_json_is_refused_with_a_reason(raw: bytes, why: str) -> None:
    with pytest.raises(WrongParameter, match=r"^The ") as refused:
        blueprint.parse_body(raw)
    assert why in refused.value.message


@pytest.mark.parametrize("raw", TAKEN.values(), ids=TAKEN.keys())
def test_unusual_but_valid_json_is_accepted(raw: bytes) -> None:
    assert blueprint.parse_body(raw) == json.loads(raw)


def test_keys_keep_their_order() -> None:
    assert list(blueprint.parse_body(b'{"z": 1, "a": 2, "m": 3}')) == ["z", "a", "m"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Type": "application/json"}, 400),
        ({"Content-Type": "APPLICATION/JSON; charset=UTF-8"}, 400),
        ({"Content-Type": "application/json; charset=latin-1"}, 415),
        ({"Content-Type": "application/json", "Content-Encoding": "gzip"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content-Type": "text/plain"}, 415),
        ({}, 415),
    ],
)
def test_a_body_must_be_declared_as_plain_json(client: FlaskClient, headers: dict[str, str], status: int) -> None:
    answer = client.post("/v1/job", data=b"{}", headers={"token": "write_job", **headers})
    assert answer.status_code == status
    assert answer.json["code"] in ("WRONG_PARAM", "LACK_OF_PARAM")


def test_a_body_of_more_than_4_mib_is_refused(client: FlaskClient) -> None:
    body = b'"' + b"x" * blueprint.MAX_BYTES + b'"'
    answer = client.post("/v1/job", data=body, headers={"token": "write_job", "Content-Type": "application/json"})
    assert (answer.status_code, answer.json["code"]) == (413, "WRONG_PARAM")


@pytest.mark.parametrize("more", [1, 2, 1_000_000])
def test_a_too_long_body_of_unknown_length_is_refused_not_truncated(client: FlaskClient, more: int) -> None:
    body = b"{}" + b" " * (blueprint.MAX_BYTES - 2 + more)
    answer = client.post(
        "/v1/job",
        input_stream=io.BytesIO(body),
        environ_overrides={"wsgi.input_terminated": True, "HTTP_TRANSFER_ENCODING": "chunked"},
        headers={"token": "write_job", "Content-Type": "application/json"},
    )
    assert answer.status_code == 413


@pytest.mark.parametrize("error", [InvalidChunkSize(b"zz"), ChunkMissingTerminator(b"XX")])
def test_malformed_chunks_are_the_clients_mistake(client: FlaskClient, error: Exception) -> None:
    class Body(io.BytesIO):
        def readinto(self, buffer: object, /) -> int:
            raise error

    answer = client.post(
        "/v1/job",
        input_stream=Body(),
        environ_overrides={"wsgi.input_terminated": True, "HTTP_TRANSFER_ENCODING": "chunked"},
        headers={"token": "write_job", "Content-Type": "application/json"},
    )
    assert (answer.status_code, answer.json["code"]) == (400, "WRONG_PARAM")
    assert "malformed chunks" in answer.json["msg"]


def test_a_body_of_just_the_limit_is_read(client: FlaskClient) -> None:
    body = b"{}" + b" " * (blueprint.MAX_BYTES - 2)
    answer = client.post("/v1/job", data=body, headers={"token": "write_job", "Content-Type": "application/json"})
    assert answer.json["code"] == "LACK_OF_PARAM"


def test_an_operation_without_a_body_takes_none_or_an_empty_object(client: FlaskClient) -> None:
    refused = client.post("/v1/job/retry/j1", json={"reason": "again"}, headers={"token": "write_job"})
    assert (refused.status_code, refused.json["code"]) == (400, "WRONG_PARAM")


HUGE = b"x" * (blueprint.MAX_BYTES + 1)


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


def test_an_invalid_body_is_reported_before_a_missing_target(
    client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
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
def test_an_invalid_reason_body_is_refused_with_the_field(client: FlaskClient, body: Any, field: str | None) -> None:
    headers = {"token": "write_job", "Content-Type": "application/json"}
    answer = client.put("/v1/job/stop/j1", data=json.dumps(body), headers=headers)
    assert (answer.status_code, answer.json["code"]) == (400, "WRONG_PARAM")
    assert list(answer.json.get("errors", {})) == ([field] if field else [])


@pytest.mark.parametrize(
    "body", [None, {}, {"reason": ""}, {"jobID": "j1"}, {"jobID": "j1", "reason": "x" * 1000}, {"sequence": 7}]
)
def test_the_body_with_a_reason_is_optional(client: FlaskClient, monkeypatch: pytest.MonkeyPatch, body: Any) -> None:
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
