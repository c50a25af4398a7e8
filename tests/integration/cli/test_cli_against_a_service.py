from __future__ import annotations

import json
import re
import socket
from pathlib import Path
from typing import Any

import pytest

from pipeline_cli import logs

JOB = {"kind": "TFJob", "metadata": {"name": "mnist"}, "spec": {}}
DETAIL: dict[str, Any] = {
    "version": "v1",
    "job": {"id": "j01", "name": "mnist", "type": "TFJob", "state": "succeeded", "userID": "ada", "exitCode": 0},
    "cluster": {"identity": "local"},
    "tasks": [{"name": "chief", "replicas": [{"index": 0, "state": "succeeded", "exitCode": 0, "retriedCount": 0}]}],
    "platformSpecificInfo": None,
}


def time(second: float) -> str:
    return f"2025-01-31T12:00:{second:06.3f}Z"


def event(sequence: int, state: str, second: float, **fields: Any) -> dict[str, Any]:
    return {
        "sequence": sequence,
        "state": state,
        "previousState": "",
        "reason": "",
        "occurredAt": time(second),
        **fields,
    }


def call(stage: str, plugin: str, second: float, **fields: Any) -> dict[str, Any]:
    entry = {"stage": stage, "plugin": plugin, "asking": 1, "attempts": 1, "startedAt": time(second), "durationMs": 7}
    return {**entry, "outcome": "answered", "decision": "", "reason": "", "factors": None, "patch": None, **fields}


@pytest.fixture
def job_file(stub, tmp_path: Path) -> str:
    """A bare job; whose it is, the service says."""
    stub.answer("GET", "/v1/whoami", {"forwho": "ada", "admin": False})
    path = tmp_path / "job.json"
    path.write_text(json.dumps(JOB))
    return str(path)


def test_a_submission_sends_the_job_with_the_token_and_prints_its_id(stub, pipeline, job_file) -> None:
    stub.answer("POST", "/v1/job", {"jobID": "j01"})
    result = pipeline("submit", job_file, "--user", "ada", "-H", "team=vision", "--idempotency-key", "once")
    assert (result.exit_code, result.stdout) == (0, "j01\n")
    (asked,) = stub.asked
    assert asked.headers["Authorization"] == "Bearer secret"
    assert asked.headers["Idempotency-Key"] == "once"
    assert asked.body == {
        "userID": "ada",
        "jobName": "mnist",
        "jobKind": "TFJob",
        "header": {"team": "vision"},
        "job": JOB,
    }


@pytest.mark.parametrize(("command", "path"), [("submit", "/v1/job"), ("explain", "/v1/job/explain")])
def test_a_job_is_the_token_s_user_s_unless_somebody_else_is_named(stub, pipeline, job_file, command, path) -> None:
    stub.answer("POST", path, {"jobID": "j01", "namespace": "default", "stages": [], "lifeHooks": []})
    assert pipeline(command, job_file, USER="somebody").exit_code == 0
    assert pipeline(command, job_file, "--user", "bob").exit_code == 0
    whole = Path(job_file).with_name("whole.json")
    whole.write_text(json.dumps({"userID": "eve", "jobName": "m", "jobKind": "TFJob", "job": JOB}))
    assert pipeline(command, str(whole)).exit_code == 0
    assert [asked.body["userID"] for asked in stub.asked if asked.path == path] == ["ada", "bob", "eve"]
    assert sum(asked.path == "/v1/whoami" for asked in stub.asked) == 1


def test_waiting_shows_the_way_in_the_order_of_events_and_ends_well(stub, pipeline, job_file) -> None:
    stub.answer("POST", "/v1/job", {"jobID": "j01"})
    first = event(1, "waiting", 0)
    gate = call("gates", "AccessGate.admission.examples", 1, decision="pass", reason="fine")
    patch = [{"op": "add", "path": "/spec/roles/0/template/spec/schedulerName", "value": "x"}]
    binder = call("bind", "SchedulerBinder.priority.examples", 2, patch=patch)
    stub.answer("GET", "/v1/job/events/j01", [first])
    stub.answer("GET", "/v1/job/events/j01", [first, event(2, "running", 3), event(3, "succeeded", 4)])
    stub.answer("GET", "/v1/job/trail/j01", [])
    stub.answer("GET", "/v1/job/trail/j01", [gate, binder])
    stub.answer("GET", "/v1/job/detail/j01", DETAIL)
    result = pipeline("submit", job_file, "--wait")
    assert result.exit_code == 0
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["j01", "submitted"],
        ["12:00:00.000", "waiting"],
        ["12:00:01.000", "gates", "AccessGate.admission.examples", "answered:", "pass:", "fine", "7", "ms"],
        [
            *["12:00:02.000", "bind", "SchedulerBinder.priority.examples", "answered:"],
            *["add", "roles/0/template/spec/schedulerName", "7", "ms"],
        ],
        ["12:00:03.000", "running"],
        ["12:00:04.000", "succeeded"],
        ["j01", "succeeded", "with", "exit", "code", "0"],
    ]


def test_a_job_submitted_earlier_is_waited_for_alike(stub, pipeline) -> None:
    stub.answer("GET", "/v1/job/events/j01", [event(1, "waiting", 0), event(2, "succeeded", 1)])
    stub.answer("GET", "/v1/job/trail/j01", [])
    stub.answer("GET", "/v1/job/detail/j01", DETAIL)
    result = pipeline("wait", "j01")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == "j01 succeeded with exit code 0"


def test_waiting_for_a_job_that_is_not_there_is_exit_code_4(pipeline) -> None:
    assert pipeline("wait", "j01").exit_code == 4


@pytest.mark.parametrize("state", ["failed", "stopped"])
def test_waiting_for_a_job_that_does_not_succeed_exits_1(stub, pipeline, job_file, state: str) -> None:
    stub.answer("POST", "/v1/job", {"jobID": "j01"})
    stub.answer("GET", "/v1/job/events/j01", [event(1, "waiting", 0), event(2, state, 1)])
    stub.answer("GET", "/v1/job/trail/j01", [])
    stub.answer("GET", "/v1/job/detail/j01", {**DETAIL, "job": {**DETAIL["job"], "state": state, "reason": "because"}})
    result = pipeline("submit", job_file, "--wait")
    assert result.exit_code == 1
    assert "because" in result.stdout


def test_waiting_outlives_a_service_that_is_away_for_a_moment(stub, pipeline, job_file) -> None:
    stub.answer("POST", "/v1/job", {"jobID": "j01"})
    away = {"status": 503, "code": "INTERNAL_ERROR", "msg": "Redis is away", "headers": {"Retry-After": "0"}}
    stub.answer("GET", "/v1/job/events/j01", **away)
    stub.answer("GET", "/v1/job/events/j01", [event(1, "waiting", 0), event(2, "succeeded", 1)])
    stub.answer("GET", "/v1/job/trail/j01", [])
    stub.answer("GET", "/v1/job/detail/j01", DETAIL)
    assert pipeline("submit", job_file, "--wait").exit_code == 0


def test_waiting_with_json_keeps_the_progress_out_of_standard_output(stub, pipeline, job_file) -> None:
    stub.answer("POST", "/v1/job", {"jobID": "j01"})
    stub.answer("GET", "/v1/job/events/j01", [event(1, "waiting", 0), event(2, "succeeded", 1)])
    stub.answer("GET", "/v1/job/trail/j01", [])
    stub.answer("GET", "/v1/job/detail/j01", DETAIL)
    result = pipeline("submit", job_file, "--wait", "--output", "json")
    assert json.loads(result.stdout) == DETAIL
    assert "12:00:01.000  succeeded" in result.stderr


def test_waiting_for_a_suspended_job_says_how_to_resume_it(stub, pipeline, job_file) -> None:
    stub.answer("POST", "/v1/job", {"jobID": "j01"})
    way = [event(1, "waiting", 0), event(2, "suspended", 1), event(3, "waiting", 2), event(4, "succeeded", 3)]
    stub.answer("GET", "/v1/job/events/j01", way[:2])
    stub.answer("GET", "/v1/job/events/j01", way)
    stub.answer("GET", "/v1/job/trail/j01", [])
    stub.answer("GET", "/v1/job/detail/j01", DETAIL)
    assert pipeline("submit", job_file, "--wait").stdout.count("pipeline resume j01") == 1


@pytest.mark.parametrize(
    ("status", "code", "exit_code"),
    [
        (400, "LACK_OF_PARAM", 3),
        (400, "WRONG_PARAM", 3),
        (400, "UNSUPPORTED_PLUGIN_TYPE", 3),
        (401, "PERMISSION_DENIED", 6),
        (403, "PERMISSION_DENIED", 6),
        (404, "OPERATION_TARGET_NOT_FOUND", 4),
        (405, "UNSUPPORTED_OPERATION", 3),
        (409, "UNSUPPORTED_OPERATION", 3),
        (413, "WRONG_PARAM", 3),
        (415, "WRONG_PARAM", 3),
        (429, "PERMISSION_DENIED", 6),
        (500, "INTERNAL_ERROR", 5),
        (503, "INTERNAL_ERROR", 5),
    ],
)
def test_each_refusal_has_its_exit_code_and_shows_code_and_message(
    stub, pipeline, status: int, code: str, exit_code: int
) -> None:
    stub.answer("PUT", "/v1/job/stop/j01", status=status, code=code, msg="the sentence")
    result = pipeline("stop", "j01")
    assert result.exit_code == exit_code
    assert f"{code}: the sentence" in result.stderr
    assert result.stdout == ""


def test_a_fault_of_the_service_names_the_request(stub, pipeline) -> None:
    fault = {"status": 500, "code": "INTERNAL_ERROR", "msg": "it broke", "headers": {"X-Request-ID": "r-7"}}
    stub.answer("GET", "/v1/job/detail/j01", **fault)
    assert "INTERNAL_ERROR: it broke (request r-7)" in pipeline("job", "j01").stderr


def test_a_refusal_shows_what_is_wrong_with_each_field(stub, pipeline, job_file) -> None:
    errors = {"job.kind": ["must equal jobKind"], "userID": ["is too long", "is odd"]}
    stub.answer("POST", "/v1/job", status=400, code="WRONG_PARAM", msg="the body is wrong", errors=errors)
    lines = pipeline("submit", job_file).stderr.splitlines()
    assert lines[1:] == ["  job.kind: must equal jobKind", "  userID: is too long", "  userID: is odd"]


def test_a_refusal_prints_no_error_twice(stub, pipeline) -> None:
    message = 'The query parameter state is "bogus": It is none of waiting, running.'
    errors = {"state": ["It is none of waiting, running."]}
    stub.answer("GET", "/v1/job/list", status=400, code="WRONG_PARAM", msg=message, errors=errors)
    assert pipeline("jobs", "--state", "bogus").stderr == f"Error: WRONG_PARAM: {message}\n"


def test_an_unreachable_service_is_exit_code_5(pipeline) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    result = pipeline("job", "j01", PIPELINE_URL=f"http://127.0.0.1:{port}")
    assert result.exit_code == 5
    assert "Connection refused" in result.stderr
    assert "PIPELINE_URL" in result.stderr


@pytest.mark.parametrize("status", [200, 302, 404, 502])
def test_an_answer_that_is_not_pipelines_is_exit_code_5(stub, pipeline, status: int) -> None:
    stub.raw("GET", "/v1/job/detail/j01", b"<html>", status, {"Content-Type": "text/html", "Location": "/login"})
    assert pipeline("job", "j01").exit_code == 5


def test_a_proxy_of_the_environment_is_not_used_for_this_machine(stub, pipeline) -> None:
    stub.answer("GET", "/v1/job/detail/j01", DETAIL)
    assert pipeline("job", "j01", http_proxy="http://127.0.0.1:9", no_proxy="").exit_code == 0


def test_jobs_are_filtered_as_the_contract_names_it(stub, pipeline) -> None:
    headers = {"X-Total-Count": "10000", "X-Total-Count-Exact": "false", "X-Next-Cursor": "abc"}
    stub.answer("GET", "/v1/job/list", [{"jobID": "j01", "jobName": "mnist", "state": "running"}], headers=headers)
    words = "--user ada --kind TFJob --state running,waiting --stage gates --suspended-by K --name mn"
    words += " --since 100 --until 2025-01-31T12:00:00Z --order asc --page 2 --page-size 5 --cursor c"
    result = pipeline("jobs", *words.split())
    assert result.exit_code == 0
    assert "j01" in result.stdout
    assert "more than 10000 jobs; the next page: --cursor abc" in result.stderr
    assert stub.asked[0].query == {
        "userID": "ada",
        "kind": "TFJob",
        "state": "running,waiting",
        "stage": "gates",
        "suspendedBy": "K",
        "name": "mn",
        "startAt": "100",
        "endAt": "1738324800",
        "order": "asc",
        "pageNumber": "2",
        "pageSize": "5",
        "cursor": "c",
    }


def test_jobs_can_be_counted(stub, pipeline) -> None:
    stub.answer("GET", "/v1/job/count", {"count": 12345})
    assert pipeline("jobs", "--count", "--state", "failed").stdout == "12345\n"
    assert pipeline("jobs", "--count", "--page", "1").exit_code == 2
    assert [asked.query for asked in stub.asked] == [{"state": "failed"}]


@pytest.mark.parametrize(
    ("words", "path", "payload", "shows"),
    [
        (["job", "j01"], "/v1/job/detail/j01", DETAIL, ["mnist", "succeeded", "chief"]),
        (["config", "j01"], "/v1/job/config/j01", JOB, ["kind: TFJob"]),
        (["taskset", "j01"], "/v1/job/taskset/j01", {"kind": "TaskSet"}, ["kind: TaskSet"]),
        (
            ["trail", "j01"],
            "/v1/job/trail/j01",
            [call("gates", "K", 1, decision="stop", reason="no")],
            ["K", "stop: no"],
        ),
        (
            ["events", "j01"],
            "/v1/job/events/j01",
            [event(1, "waiting", 0, deliveries=[{"plugin": "L", "status": "delivered"}])],
            ["waiting", "L delivered"],
        ),
        (
            ["feature", "list"],
            "/v1/features/list/all",
            [{"name": "quota", "author": "a", "enabled": True, "plugins": [{"pluginType": "AccessGate"}]}],
            ["quota", "yes", "AccessGate"],
        ),
        (["feature", "list", "me"], "/v1/features/list/me", [], ["FEATURE"]),
        (
            ["feature", "show", "quota"],
            "/v1/features/detail/quota",
            {"name": "quota", "author": "a", "enabled": False, "plugins": [{"key": "K", "callAddress": "http://x"}]},
            ["quota", "http://x"],
        ),
        (["plugins"], "/v1/plugins/list/all", [{"key": "K", "pluginType": "AccessGate"}], ["K"]),
        (["plugins", "LifeHook"], "/v1/plugins/list/LifeHook", [{"key": "K"}], ["K"]),
        (
            ["plugin", "show", "AccessGate.a.x"],
            "/v1/plugins/detail/AccessGate.a.x",
            {
                "key": "AccessGate.a.x",
                "failurePolicy": "Fail",
                "health": {
                    "circuit": "open",
                    "failuresInARow": 5,
                    "cause": "no route",
                    "recent": [{"at": "2025-01-31T12:00:00Z", "outcome": "unreachable", "durationMs": 7}],
                },
            },
            ["AccessGate.a.x", "open", "no route", "2025-01-31 12:00:00Z", "unreachable", "7 ms"],
        ),
        (["plugin", "show", "K"], "/v1/plugins/detail/K", {"key": "K", "health": None}, ["Redis is away"]),
        (
            ["audit"],
            "/v1/audit",
            [
                {
                    "at": "2025-01-31T12:00:00Z",
                    "actor": "ada",
                    "action": "job.stop",
                    "target": "j01",
                    "address": "10.0.0.1",
                }
            ],
            ["2025-01-31 12:00:00Z", "ada", "job.stop", "j01", "10.0.0.1"],
        ),
        (["deliveries", "--job", "j01"], "/v1/hooks/deliveries", [{"id": "d1", "status": "exhausted"}], ["d1"]),
        (
            ["token", "list"],
            "/v1/tokens",
            [{"id": "t1", "forwho": "ada", "privileges": ["read_job"]}],
            ["t1", "read_job"],
        ),
    ],
)
def test_what_is_there_is_shown_as_a_table_and_as_the_payload_itself(
    stub, pipeline, words: list[str], path: str, payload: Any, shows: list[str]
) -> None:
    stub.answer("GET", path, payload)
    shown = pipeline(*words)
    assert shown.exit_code == 0
    for text in shows:
        assert text in shown.stdout
    assert json.loads(pipeline(*words, "-o", "json").stdout) == payload


@pytest.mark.parametrize(
    ("words", "method", "path", "body"),
    [
        (["stop", "j01"], "PUT", "/v1/job/stop/j01", {}),
        (["stop", "j01", "--reason", "late"], "PUT", "/v1/job/stop/j01", {"reason": "late"}),
        (["resume", "j01", "--gate", "K", "--reason", "r"], "PUT", "/v1/job/resume/j01", {"gate": "K", "reason": "r"}),
        (["feature", "on", "quota"], "PUT", "/v1/features/turn-on/quota", None),
        (["feature", "off", "quota"], "PUT", "/v1/features/turn-off/quota", None),
        (["feature", "delete", "a/b"], "DELETE", "/v1/features/a%2Fb", None),
        (["token", "delete", "t1"], "DELETE", "/v1/tokens/t1", None),
        (
            ["plugin", "order", "AccessGate.a.x", "--before", "AccessGate.b.x"],
            "PUT",
            "/v1/plugins/sequence",
            {"beforeKey": "AccessGate.a.x", "afterKey": "AccessGate.b.x", "pluginType": "AccessGate"},
        ),
    ],
)
def test_what_is_done_sends_one_request(stub, pipeline, words: list[str], method: str, path: str, body: Any) -> None:
    stub.answer(method, path, msg="done")
    assert pipeline(*words).exit_code == 0
    assert [(asked.method, asked.path, asked.body) for asked in stub.asked] == [(method, path, body)]
    assert json.loads(pipeline(*words, "--output", "json").stdout)["code"] == "OPERATION_SUCCEEDED"


def test_a_shadow_is_shown_beside_what_was_decided_and_promoted(stub, pipeline) -> None:
    answer = {"plugin": "K", "durationMs": 30, "outcome": "answered", "decision": "stop", "reason": "too large"}
    pair = {
        "jobID": "j01",
        "stage": "gates",
        "at": "2026-03-01T00:00:00Z",
        "shadow": answer,
        "decided": {**answer, "durationMs": 10, "decision": "pass", "reason": ""},
    }
    stub.answer(
        "GET",
        "/v1/plugins/shadow/K",
        {
            "key": "K",
            "mode": "shadow",
            "answers": 2,
            "disagreed": 1,
            "latency": {"shadow": {"medianMs": 30, "p95Ms": 1500}, "decided": None},
            "disagreements": [pair],
            "lastErrors": [],
        },
    )
    shown = pipeline("plugin", "shadow", "K", "--since", "5").stdout
    assert "30 ms in the middle, 95 % within 1.5 s" in shown
    assert "stop: too large (30 ms)" in shown
    assert "pass (10 ms)" in shown
    assert stub.asked[-1].query == {"since": "5"}
    pipeline("plugin", "shadow", "K", "--most", "3")
    assert stub.asked[-1].query == {"most": "3"}
    stub.answer("PUT", "/v1/plugins/promote/K", {"promoted": {"key": "K"}, "replaced": {"key": "L"}})
    assert pipeline("plugin", "promote", "K").stdout == "K is active; L is its shadow\n"


def test_deliveries_are_sent_again_one_by_one_or_all_of_a_plugin(stub, pipeline) -> None:
    for delivery in ("d1", "d2"):
        stub.answer("POST", f"/v1/hooks/redeliver/{delivery}")
    stub.answer("POST", "/v1/hooks/redeliver", {"count": 7})
    assert pipeline("redeliver", "d1", "d2").stdout == "d1 is sent again\nd2 is sent again\n"
    assert json.loads(pipeline("redeliver", "d1", "-o", "json").stdout) == ["d1"]
    result = pipeline("redeliver", "--plugin", "LifeHook.a.x")
    assert result.stdout == "7 deliveries to LifeHook.a.x are sent again\n"
    assert stub.asked[-1].query == {"plugin": "LifeHook.a.x"}
    assert pipeline("redeliver").exit_code == 2
    assert pipeline("redeliver", "d1", "--plugin", "LifeHook.a.x").exit_code == 2


def test_a_retried_job_has_a_new_id(stub, pipeline) -> None:
    stub.answer("POST", "/v1/job/retry/j01", {"jobID": "j02"})
    assert pipeline("retry", "j01").stdout == "j02\n"


def test_what_if_sends_the_feature_without_registering_it_and_shows_what_it_would_gain_and_lose(
    stub, pipeline, tmp_path: Path
) -> None:
    (tmp_path / "feature.yaml").write_text("name: quota\nplugins: []\n")
    change = {"matched": 2, "gained": 1, "lost": 3}
    explanation = {"expression": "ada", "matched": False, "conditions": []}
    plugin = {
        **change,
        "pluginType": "AccessGate",
        "byDay": [{"day": "2026-01-31", **change}],
        "byKind": [{"kind": "TFJob", **change}],
        "byUser": [{"userID": "ada", **change}],
        "gainedJobs": ["j01"],
        "lostJobs": [],
        "explanation": explanation,
    }
    stub.answer("POST", "/v1/features/what-if", {"jobs": 12345, "complete": False, "plugins": [plugin]})
    result = pipeline("feature", "what-if", str(tmp_path / "feature.yaml"), "--since", "1700000000", "--job", "j01")
    (asked,) = stub.asked
    assert asked.body == {"name": "quota", "plugins": []}
    assert asked.query == {"startAt": "1700000000", "jobID": "j01"}
    for text in ("12,345, the latest; there are more", "day 2026-01-31", "kind TFJob", "userID ada", "j01", "matched"):
        assert text in result.stdout


def test_what_if_takes_one_feature(stub, pipeline, tmp_path: Path) -> None:
    (tmp_path / "two.yaml").write_text("name: a\n---\nname: b\n")
    result = pipeline("feature", "what-if", str(tmp_path / "two.yaml"))
    assert (result.exit_code, stub.asked) == (2, [])
    assert "holds 2 features" in result.stderr


def test_explaining_sends_the_submission_without_submitting_it(stub, pipeline, job_file) -> None:
    stage = {"stage": "gates", "outcome": "K is asked.", "plugins": [{"key": "K", "sequence": 1, "runs": True}]}
    plan = {"namespace": "default", "stages": [stage], "lifeHooks": []}
    stub.answer("POST", "/v1/job/explain", plan)
    words = pipeline("explain", job_file, "--user", "ada").stdout.split()
    assert words[-5:] == ["gates", "1", "K", "yes", "*"]
    assert stub.asked[0].body["job"] == JOB
    assert json.loads(pipeline("explain", job_file, "-o", "json").stdout) == plan


def test_a_token_is_printed_alone_and_its_id_beside(stub, pipeline) -> None:
    stub.answer("POST", "/v1/tokens", {"token": "A" * 24, "id": "t1"})
    result = pipeline("token", "create", "read_job", "write_job", "--for", "ada", "--own-only")
    assert result.stdout == "A" * 24 + "\n"
    assert "t1" in result.stderr
    assert stub.asked[0].body == {"privileges": ["read_job", "write_job"], "forwho": "ada", "ownOnly": True}


def test_a_file_may_hold_several_features(stub, pipeline, tmp_path: Path) -> None:
    stub.answer("POST", "/v1/features")
    for name in ("one", "two"):
        stub.answer("PUT", f"/v1/features/turn-on/{name}")
    path = tmp_path / "features.yaml"
    path.write_text("name: one\n---\nname: two\n")
    assert pipeline("feature", "register", str(path), "--on").exit_code == 0
    assert [(asked.method, asked.path) for asked in stub.asked] == [
        ("POST", "/v1/features"),
        ("PUT", "/v1/features/turn-on/one"),
        ("POST", "/v1/features"),
        ("PUT", "/v1/features/turn-on/two"),
    ]


def test_a_list_in_pages_is_read_to_its_end(stub, pipeline) -> None:
    for page in ([event(1, "waiting", 0), event(2, "running", 1)], [event(3, "succeeded", 2)]):
        stub.answer("GET", "/v1/job/events/j01", page, headers={"X-Total-Count": "3"})
    assert [found["sequence"] for found in json.loads(pipeline("events", "j01", "-o", "json").stdout)] == [1, 2, 3]
    assert [asked.query for asked in stub.asked] == [{}, {"pageNumber": "2"}]


def test_logs_come_as_they_are(stub, pipeline) -> None:
    stub.raw("GET", "/v1/job/logs/j01", b"one\n\xff two\n", 200, {"Content-Type": "text/plain"})
    words = "-f --task w --replica 0 --attempt 1 --tail 5 --since 60"
    result = pipeline("logs", "j01", *words.split())
    assert result.stdout_bytes == b"one\n\xff two\n"
    expected = {"follow": "true", "task": "w", "replica": "0", "attempt": "1", "tail": "5", "since": "60"}
    assert stub.asked[0].query == expected


def test_logs_outlive_a_service_that_goes_away_before_the_first_line(stub, pipeline, monkeypatch) -> None:
    monkeypatch.setattr(logs, "LONGEST_PAUSE", 0)
    stub.break_off("GET", "/v1/job/logs/j01", b"")
    stub.raw("GET", "/v1/job/logs/j01", b"one\n", 200, {"Content-Type": "text/plain"})
    stub.answer("GET", "/v1/version", {"version": "1"})
    result = pipeline("logs", "j01", "-f")
    assert (result.exit_code, result.stdout) == (0, "one\n")


@pytest.mark.parametrize("options", [(), ("-f",)])
def test_logs_wait_for_a_service_that_serves_too_many_readers(stub, pipeline, options) -> None:
    busy = json.dumps({"code": "INTERNAL_ERROR", "msg": "This process serves 2 log readers already."}).encode()
    for _ in range(2):
        stub.raw("GET", "/v1/job/logs/j01", busy, 503, {"Content-Type": "application/json", "Retry-After": "0"})
    stub.raw("GET", "/v1/job/logs/j01", b"one\n", 200, {"Content-Type": "text/plain"})
    result = pipeline("logs", "j01", *options)
    assert (result.exit_code, result.stdout) == (0, "one\n")
    assert result.stderr.count("serves 2 log readers already. Asking again in 0 s.\n") == 2


def test_logs_do_not_wait_for_longer_than_two_minutes(stub, pipeline) -> None:
    busy = json.dumps({"code": "INTERNAL_ERROR", "msg": "busy"}).encode()
    stub.raw("GET", "/v1/job/logs/j01", busy, 503, {"Content-Type": "application/json", "Retry-After": "3600"})
    assert pipeline("logs", "j01").exit_code == 5


def test_logs_that_broke_off_say_how_to_go_on(stub, pipeline) -> None:
    stub.break_off("GET", "/v1/job/logs/j01", b"one\n")
    result = pipeline("logs", "j01", "-f")
    assert (result.exit_code, result.stdout) == (5, "one\n")
    assert f"Error: {stub.url} broke off its answer. Nothing is lost." in result.stderr
    assert re.search(r"The same command with `--since \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ` goes on", result.stderr)
    assert "PIPELINE_URL" not in result.stderr


def test_a_connection_closed_without_an_answer_is_no_fault_of_the_url(stub, pipeline) -> None:
    stub.break_off("GET", "/v1/job/logs/j01", b"")
    result = pipeline("logs", "j01")
    assert result.exit_code == 5
    assert result.stderr == f"Error: {stub.url} closed the connection without an answer\n"


@pytest.mark.parametrize(("status", "exit_code"), [(403, 6), (404, 4), (503, 5), (400, 3)])
def test_an_error_of_logs_may_be_plain_text(stub, pipeline, status: int, exit_code: int) -> None:
    stub.raw("GET", "/v1/job/logs/j01", b"the sentence\n", status, {"Content-Type": "text/plain; charset=utf-8"})
    result = pipeline("logs", "j01")
    assert result.exit_code == exit_code
    assert "the sentence" in result.stderr
