"""Whatever is sent: the right refusal, in a sentence, with nothing written and nothing delivered that is not the sender's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from urllib.parse import quote

import psycopg2
import pytest
import requests
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from psycopg2 import sql

from tests.installation import Installation
from tests.waiting import HANG_SECONDS

BOUNDED = settings(
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
CODES = {400: {"WRONG_PARAM", "LACK_OF_PARAM", "UNSUPPORTED_PLUGIN_TYPE"}, 404: {"OPERATION_TARGET_NOT_FOUND"}}
NEVER_TOLD = ("Traceback", 'File "', "psycopg", "sqlalchemy", "SELECT ", "postgresql:", "a2tra2tr")

CHANGES = [
    ("POST", "/v1/job"),
    ("POST", "/v1/job/explain"),
    ("PUT", "/v1/job/stop/nothing"),
    ("PUT", "/v1/job/resume/nothing"),
    ("POST", "/v1/job/retry/nothing"),
    ("POST", "/v1/flows"),
    ("POST", "/v1/flows/import"),
    ("PUT", "/v1/flows/nothing"),
    ("DELETE", "/v1/flows/nothing"),
    ("POST", "/v1/flows/nothing/run"),
    ("POST", "/v1/flows/nothing/tasks/nothing/run"),
    ("POST", "/v1/flows/nothing/tasks/nothing/debug"),
    ("PUT", "/v1/flows/nothing/schedule"),
    ("POST", "/v1/flows/nothing/backfill"),
    ("PUT", "/v1/backfills/nothing"),
    ("PUT", "/v1/runs/nothing/stop"),
    ("POST", "/v1/runs/nothing/retry"),
    ("PUT", "/v1/runs/nothing/dismiss"),
    ("DELETE", "/v1/runs/nothing"),
    ("PUT", "/v1/runs/nothing/tasks/nothing"),
    ("POST", "/v1/templates"),
    ("DELETE", "/v1/templates/nothing"),
    ("POST", "/v1/features"),
    ("POST", "/v1/features/what-if"),
    ("PUT", "/v1/features/turn-on/nothing"),
    ("PUT", "/v1/features/turn-off/nothing"),
    ("DELETE", "/v1/features/nothing"),
    ("PUT", "/v1/plugins/sequence"),
    ("PUT", "/v1/plugins/promote/nothing"),
    ("POST", "/v1/hooks/redeliver/nothing"),
    ("POST", "/v1/hooks/redeliver?plugin=nothing"),
    ("POST", "/v1/tokens"),
    ("PUT", "/v1/tokens/normal"),
    ("PUT", "/v1/tokens/admin"),
    ("DELETE", "/v1/tokens"),
    ("DELETE", "/v1/tokens/nothing"),
    ("PUT", "/v1/secrets/rotate"),
]
OTHERS = {("POST", "/v1/flows/check"), ("POST", "/v1/session"), ("DELETE", "/v1/session")}
"""A check answers what is wrong with any JSON, and refuses none; a session needs no token, and is not of JSON alone."""
READS = [
    "/v1/job/list",
    "/v1/job/count",
    "/v1/job/detail/{}",
    "/v1/job/config/{}",
    "/v1/job/taskset/{}",
    "/v1/job/trail/{}",
    "/v1/job/blame/{}",
    "/v1/job/explain/{}",
    "/v1/job/events/{}",
    "/v1/job/logs/{}",
    "/v1/flows",
    "/v1/flows/export",
    "/v1/flows/{}",
    "/v1/flows/{}/runs",
    "/v1/flows/{}/layout",
    "/v1/flows/{}/grid",
    "/v1/flows/{}/schedule",
    "/v1/flows/{}/backfills",
    "/v1/backfills/{}",
    "/v1/runs",
    "/v1/runs/{}",
    "/v1/runs/{}/layout",
    "/v1/runs/{}/logs",
    "/v1/runs/{}/metrics",
    "/v1/templates",
    "/v1/templates/{}",
    "/v1/features/detail/{}",
    "/v1/plugins/detail/{}",
    "/v1/plugins/list/{}",
    "/v1/hooks/deliveries",
    "/v1/tokens",
    "/v1/audit",
]
FIELDS = [
    "userID", "jobName", "jobKind", "job", "kind", "header", "jobNameSpace", "cluster", "jobID", "reason", "gate",
    "name", "author", "plugins", "pluginType", "callAddress", "jobSelector", "conditions", "expression", "states",
    "enabled", "authorization", "signingSecret", "timeoutSeconds", "beforeKey", "afterKey", "token", "id", "privileges",
    "forwho", "note", "ownOnly", "expiresAt", "key", "sequence", "metadata", "spec", "roles", "é", "__class__", "",
    "pipeline", "tasks", "job_templete", "dag_json", "global_env", "args", "variables", "mark",
    "paused", "replay", "from", "to", "action", "job_template_name",
]  # fmt: skip
TEXTS = st.text(st.characters(codec="utf-8"), max_size=30) | st.sampled_from(
    [
        "TaskSet",
        "AccessGate",
        "LifeHook",
        "all",
        "admin",
        "read_job",
        "http://[::1",
        "http://169.254.169.254/",
        "x" * 300,
    ]
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=10**300, max_value=10**300 + 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
)
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=8),
    max_leaves=30,
)

RAW = {
    "no JSON": (b"{'a': 1}", 400),
    "half a document": (b'{"userID": "a', 400),
    "two documents": (b"{} {}", 400),
    "NaN": (b'{"reason": NaN}', 400),
    "infinity": (b'{"reason": -Infinity}', 400),
    "a number beyond all bounds": (b'{"reason": 1e999}', 400),
    "an endless integer": (b'{"reason": ' + b"9" * 5000 + b"}", 400),
    "a key twice": (b'{"reason": "a", "reason": "b"}', 400),
    "half a surrogate pair": (b'{"reason": "\\ud800"}', 400),
    "half a pair in a key": (b'{"\\udc00": 1}', 400),
    "NUL": (b'{"reason": "\\u0000"}', 400),
    "NUL in a key": (b'{"\\u0000": 1}', 400),
    "ten thousand levels of lists": (b"[" * 10_000 + b"]" * 10_000, 400),
    "ten thousand levels of objects": (b'{"job":' * 10_000 + b"1" + b"}" * 10_000, 400),
    "ten thousand open brackets": (b"[" * 10_000, 400),
    "UTF-16": ('{"reason": "é"}'.encode("utf-16"), 400),
    "Latin-1": ('{"reason": "é"}'.encode("latin-1"), 400),
    "a byte order mark": (b"\xef\xbb\xbf{}", 400),
    "random bytes": (bytes(range(256)), 400),
    "null": (b"null", 400),
    "a list": (b"[]", 400),
    "a text": (b'"{}"', 400),
    "a number": (b"0", 400),
    "a byte more than 4 MiB": (b'{"reason": "' + b"x" * (4 * 1024 * 1024 - 13) + b'"}', 413),
}


@contextmanager
def nothing_written(api: Installation) -> Iterator[None]:
    before = rows(api)
    yield
    assert rows(api) == before


def rows(api: Installation) -> dict[str, int]:
    """How many rows each table has."""
    with reader(api.environment["PIPELINE_DATABASE_URL"]).cursor() as cursor:
        cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        count = sql.SQL("SELECT {}, count(*) FROM {}")
        counts = [count.format(sql.Literal(name), sql.Identifier(name)) for (name,) in cursor.fetchall()]
        cursor.execute(sql.SQL(" UNION ALL ").join(counts))
        return dict(cursor.fetchall())


@cache
def reader(database_url: str) -> Any:
    """One connection for all tests: they ask hundreds of times."""
    connection = psycopg2.connect(database_url)
    connection.autocommit = True
    return connection


@pytest.fixture(scope="module", autouse=True)
def closed_reader(api: Installation) -> Iterator[None]:
    yield
    reader(api.environment["PIPELINE_DATABASE_URL"]).close()
    reader.cache_clear()


def send(api: Installation, method: str, path: str, data: bytes | None = None, **headers: str) -> requests.Response:
    if data is not None:
        headers.setdefault("Content-Type", "application/json")
    return api.session.request(
        method, f"{api.url}{path}", data=data, headers={"token": api.password, **headers}, timeout=HANG_SECONDS
    )


def assert_refused(answer: requests.Response, *statuses: int) -> None:
    """One of these statuses, in the form of all refusals, and without anything from within."""
    assert answer.status_code in statuses, (answer.request.method, answer.request.url, answer.status_code, answer.text)
    body = answer.json()
    assert body["code"] in CODES.get(answer.status_code, {body["code"]})
    assert set(body) <= {"code", "msg", "errors"}
    assert body["msg"].strip()
    assert len(body["msg"]) < 2000
    assert answer.headers["X-Request-ID"]
    assert not [secret for secret in (*NEVER_TOLD, "the password of") if secret in answer.text]


def test_every_change_is_in_the_table(api: Installation) -> None:
    document = requests.get(f"{api.url}/openapi.json", timeout=HANG_SECONDS).json()
    changes = {
        (method.upper(), path)
        for path, methods in document["paths"].items()
        for method in methods
        if method in ("post", "put", "delete")
    }
    assert changes >= OTHERS
    assert len(CHANGES) == len(changes - OTHERS), changes


@BOUNDED
@given(document=DOCUMENTS)
def test_any_json_is_checked_as_a_flow(api: Installation, document: Any) -> None:
    with nothing_written(api):
        answer = send(api, "POST", "/v1/flows/check", json.dumps(document).encode())
        if isinstance(document, dict) and "NUL" not in answer.json()["msg"]:
            assert answer.status_code == 200, answer.text
            assert answer.json()["payload"]["errors"]
        else:
            assert_refused(answer, 400)


@pytest.mark.parametrize(("method", "path"), CHANGES)
def test_bytes_that_are_no_body_are_refused(api: Installation, method: str, path: str) -> None:
    with nothing_written(api):
        for what, (raw, status) in RAW.items():
            answer = send(api, method, path, raw)
            assert answer.status_code == status, what
            assert_refused(answer, status)
            assert answer.json()["code"] == "WRONG_PARAM", what


@pytest.mark.parametrize(("method", "path"), CHANGES)
@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/json; charset=utf-16"},
        {"Content-Type": "\xff"},
        {"Content-Encoding": "gzip"},
    ],
)
def test_another_media_type_is_refused(api: Installation, method: str, path: str, headers: dict[str, str]) -> None:
    with nothing_written(api):
        assert_refused(send(api, method, path, b"{}", **headers), 415)


@BOUNDED
@given(change=st.sampled_from(CHANGES), document=DOCUMENTS)
def test_any_json_is_refused(api: Installation, change: tuple[str, str], document: Any) -> None:
    # It takes an empty object, and has no target that could be missing.
    assume(document != {} or "rotate" not in change[1])
    with nothing_written(api):
        assert_refused(send(api, *change, json.dumps(document).encode()), 400, 404)


@BOUNDED
@given(
    change=st.sampled_from(["/v1/job", "/v1/flows", "/v1/features", "/v1/tokens", "/v1/plugins/sequence"]),
    field=st.sampled_from(FIELDS),
    value=DOCUMENTS,
)
def test_a_good_body_with_one_bad_field_names_it(api: Installation, change: str, field: str, value: Any) -> None:
    good: dict[str, dict[str, Any]] = {
        "/v1/job": {"userID": "a", "jobName": "b", "jobKind": "K", "job": {"kind": "K"}},
        "/v1/features": {
            "name": "f",
            "author": "a",
            "plugins": [{"pluginType": "LifeHook", "callAddress": "http://127.0.0.1:9/"}],
        },
        "/v1/flows": {"pipeline": {"name": "f"}, "tasks": [{"job_templete": "logical", "name": "a"}]},
        "/v1/tokens": {"privileges": ["read_job"], "forwho": "ada"},
        "/v1/plugins/sequence": {
            "beforeKey": "AccessGate.a.b",
            "afterKey": "AccessGate.c.d",
            "pluginType": "AccessGate",
        },
    }
    bad = {**good[change], field: value, "surprise": 1}
    with nothing_written(api):
        answer = send(api, "PUT" if "sequence" in change else "POST", change, json.dumps(bad).encode())
        assert_refused(answer, 400)
        # A NUL among the texts refuses the body as a whole.
        assert answer.json().get("errors") or "NUL" in answer.json()["msg"], answer.text


@BOUNDED
@given(
    path=st.sampled_from(READS),
    target=st.text(st.characters(codec="utf-8"), min_size=1, max_size=40)
    | st.sampled_from(["'; --", "\0", "x" * 3000]),
    query=st.dictionaries(TEXTS, TEXTS, max_size=3),
)
def test_any_target_and_query_is_answered_without_a_fault(
    api: Installation, path: str, target: str, query: dict[str, str]
) -> None:
    text = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in query.items())
    answer = send(api, "GET", f"{path.format(quote(target, safe=''))}?{text}")
    if text or "{}" in path:
        assert_refused(answer, 400, 404)
    else:
        assert answer.status_code == 200


@BOUNDED
@given(path=st.text(st.characters(codec="utf-8", exclude_characters="?#"), max_size=40))
def test_an_unknown_path_is_not_found(api: Installation, path: str) -> None:
    with nothing_written(api):
        for method in ("GET", "POST", "DELETE"):
            assert_refused(send(api, method, f"/v1/unknown/{quote(path)}"), 404)


@pytest.mark.parametrize("method", ["PATCH", "TRACE", "PROPFIND", "FOO"])
@pytest.mark.parametrize(("_", "path"), CHANGES)
def test_an_unknown_method_is_refused(api: Installation, method: str, _: str, path: str) -> None:
    answer = send(api, method, path)
    assert_refused(answer, 405)
    assert answer.json()["code"] == "UNSUPPORTED_OPERATION"
    assert answer.headers["Allow"]


def test_a_query_where_there_is_none_to_give_is_refused(api: Installation) -> None:
    for method, path in CHANGES:
        mark = "&" if "?" in path else "?"
        for query in ("unknown=1", "pageSize=1&pageSize=2", "%00=%00", "a=%ff", "=", "token=x"):
            answer = send(api, method, f"{path}{mark}{query}", b"{}")
            assert_refused(answer, 400)


def test_none_of_it_was_a_fault(api: Installation) -> None:
    assert "Traceback" not in api.log("api")
    assert "request failed" not in api.log("api")
