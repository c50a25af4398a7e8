from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import update

from api import streaming
from pipeline_core.auth.privileges import Privilege
from pipeline_core.clusters.base import ClusterUnavailable, LogLine, LogQuery, NoSuchAttempt
from pipeline_core.clusters.log_cursor import LogCursor
from pipeline_core.common.clock import now
from pipeline_core.common.ids import new_job_id
from pipeline_core.database import transaction
from pipeline_core.database.models import Delivery, Job, JobDocument, Replica, TrailRow
from pipeline_core.jobs import logs, trail_rows
from pipeline_core.plugins.types import Resumer
from tests.builders import role, taskset_of

TASKSET = taskset_of(role("ps"), role("worker", replicas=2), metadata={"name": "x"})


def change(job_id: str, **values: Any) -> None:
    with transaction() as session:
        session.execute(update(Job).where(Job.id == job_id).values(**values))


def ids(client: Any, query: str = "") -> list[str]:
    return [job["jobID"] for job in client.payload("GET", f"/v1/job/list{query}")]


def test_a_submitted_job_can_be_read_in_every_way(admin: Any) -> None:
    job = {"kind": "TFJob", "z": 1.5, "apiVersion": "kubeflow.org/v1", "a": [None, True, {"é": "ü"}]}
    sent = {"userID": "ada", "jobName": "mnist", "jobKind": "TFJob", "job": job, "header": {"type": "debug"}}
    answer = admin("POST", "/v1/job/", data=json.dumps(sent), content_type="application/json")
    job_id = answer.json["payload"]["jobID"]
    config = json.loads(admin("GET", f"/v1/job/config/{job_id}").data)["payload"]
    assert config == job
    assert list(config) == list(job)
    assert [event["state"] for event in admin.payload("GET", f"/v1/job/events/{job_id}")] == ["waiting"]
    assert admin.payload("GET", f"/v1/job/trail/{job_id}") == []
    assert admin.payload("GET", f"/v1/job/detail/{job_id}")["job"]["id"] == job_id
    assert admin.payload("GET", "/v1/job/count") == {"count": 1}
    (listed,) = admin.payload("GET", "/v1/job/list")
    assert {name: listed[name] for name in ("jobID", "jobName", "jobKind", "userID", "state", "stage", "reason")} == {
        "jobID": job_id,
        "jobName": "mnist",
        "jobKind": "TFJob",
        "userID": "ada",
        "state": "waiting",
        "stage": "translate",
        "reason": "",
    }
    assert listed["createdAt"].endswith("Z")
    assert (listed["startAt"], listed["finishedAt"]) == (None, None)


def test_a_taskset_is_not_found_before_translation(admin: Any) -> None:
    answer = admin("GET", f"/v1/job/taskset/{admin.submit()}")
    assert (answer.status_code, answer.json["code"]) == (404, "OPERATION_TARGET_NOT_FOUND")
    assert "translated" in answer.json["msg"]
    job_id = admin.submit(kind="TaskSet", job=TASKSET)
    assert admin.payload("GET", f"/v1/job/taskset/{job_id}")["metadata"]["name"] == job_id


@pytest.mark.parametrize("part", ["config", "taskset", "detail", "trail", "events", "logs"])
@pytest.mark.parametrize("job_id", ["nothing", "j01kb5gqz5sk4q7r3f0m7h2k9xz", "j%00", "%27--", "é", "j%ff"])
def test_an_unknown_job_is_not_found(admin: Any, part: str, job_id: str) -> None:
    answer = admin("GET", f"/v1/job/{part}/{job_id}")
    assert (answer.status_code, answer.json["code"]) == (404, "OPERATION_TARGET_NOT_FOUND")


def test_stop_resume_and_retry_follow_the_jobs_state(admin: Any) -> None:
    job_id = admin.submit()
    assert admin("PUT", f"/v1/job/resume/{job_id}").status_code == 409
    assert admin("POST", f"/v1/job/retry/{job_id}").status_code == 409
    for _ in range(2):
        assert admin.payload("PUT", f"/v1/job/stop/{job_id}", json={"jobID": job_id, "reason": "enough"}) is None
    assert admin.payload("GET", f"/v1/job/detail/{job_id}")["job"]["reason"] == "enough"
    again = admin.payload("POST", f"/v1/job/retry/{job_id}")["jobID"]
    assert admin.payload("GET", f"/v1/job/detail/{again}")["job"]["retryOf"] == job_id
    change(again, state="succeeded")
    assert admin("PUT", f"/v1/job/stop/{again}").json["code"] == "UNSUPPORTED_OPERATION"
    assert admin("PUT", "/v1/job/stop/nothing").status_code == 404


def test_a_suspended_job_is_resumed_once_and_by_the_gate_named(admin: Any) -> None:
    job_id = admin.submit()
    with transaction() as session:
        session.execute(
            update(Job).where(Job.id == job_id).values(state="suspended", suspended_by="g", suspended_at=now())
        )
        session.connection().exec_driver_sql("DELETE FROM steps")
    assert ids(admin, "?suspendedBy=x,g&state=suspended") == [job_id]
    gone = "g, which suspended it, is not registered any more: resume or stop the job"
    (listed,) = admin.payload("GET", "/v1/job/list?suspendedBy=g")
    assert listed["reason"] == admin.payload("GET", f"/v1/job/detail/{job_id}")["job"]["reason"] == gone
    assert admin("PUT", f"/v1/job/resume/{job_id}", json={"gate": "another"}).status_code == 409
    admin.payload("PUT", f"/v1/job/resume/{job_id}", json={"gate": "g", "reason": "quota granted"})
    assert admin("PUT", f"/v1/job/resume/{job_id}").status_code == 409
    (entry,) = admin.payload("GET", f"/v1/job/trail/{job_id}")
    assert (entry["outcome"], entry["actor"], entry["reason"]) == ("resumed", "admin", "quota granted")
    assert ids(admin, "?suspendedBy=g") == []


def suspend(job_id: str, gate: str, resumer: Resumer) -> None:
    with transaction() as session:
        values = {"state": "suspended", "suspended_by": gate, "suspended_at": now(), "resumer": resumer}
        session.execute(update(Job).where(Job.id == job_id).values(**values))
        session.connection().exec_driver_sql("DELETE FROM steps")


def test_the_trail_keeps_the_last_entries_of_a_gate_that_is_asked_again_and_again(admin: Any) -> None:
    job_id = admin.submit()
    suspend(job_id, "AccessGate.quota.x", Resumer.WRITER)
    with transaction() as session:
        stage = session.get_one(Job, job_id).stage
        rows = [(plugin, number) for number in range(1, 301) for plugin in ("AccessGate.quota.x", "AccessGate.other.x")]
        session.add_all(
            TrailRow(
                job_id=job_id, epoch=0, stage=stage, plugin_key=plugin, call_number=number, outcome="answered",
                started_at=now(),
            )
            for plugin, number in rows
        )  # fmt: skip
    admin.payload("PUT", f"/v1/job/resume/{job_id}")
    entries = admin.payload("GET", f"/v1/job/trail/{job_id}")
    quota = [entry for entry in entries if entry["plugin"] == "AccessGate.quota.x"]
    assert (len(quota), len(entries)) == (trail_rows.KEPT_OF_A_PLUGIN, trail_rows.KEPT_OF_A_PLUGIN + 300)
    assert [entry["asking"] for entry in quota[:-1]] == list(range(102, 301))
    assert quota[-1]["outcome"] == "resumed"


def test_past_a_gate_of_approvers_only_one_who_is_not_the_jobs_user_resumes(
    admin: Any, bearer: Callable[..., Any]
) -> None:
    job_id = admin.submit("ada")
    path = f"/v1/job/resume/{job_id}"
    suspend(job_id, "AccessGate.budget.x", Resumer.APPROVER)
    (listed,) = admin.payload("GET", "/v1/job/list?state=suspended")
    assert (listed["suspendedBy"], listed["resume"]) == ("AccessGate.budget.x", "approver")
    assert listed["suspendedAt"] == admin.payload("GET", f"/v1/job/detail/{job_id}")["job"]["suspendedAt"]
    for refused in (
        bearer(Privilege.WRITE_JOB, forwho="ada"),
        bearer(Privilege.WRITE_JOB, forwho="ada", own_only=True),
        bearer(Privilege.WRITE_JOB, forwho="bob"),
        bearer(Privilege.WRITE_JOB, Privilege.APPROVE_JOB, forwho="ada"),
    ):
        answer = refused("PUT", path, json={"reason": "please"})
        assert (answer.status_code, answer.json["code"]) == (403, "PERMISSION_DENIED")
        for part in ("AccessGate.budget.x", "approve_job", '"ada"'):
            assert part in answer.json["msg"]
        assert admin.payload("GET", f"/v1/job/detail/{job_id}")["job"]["state"] == "suspended"
    bearer(Privilege.APPROVE_JOB, forwho="bob").payload("PUT", path, json={"reason": "within budget"})
    (entry,) = admin.payload("GET", f"/v1/job/trail/{job_id}")
    assert (entry["outcome"], entry["actor"], entry["reason"]) == ("resumed", "bob", "within budget")
    record = admin.payload("GET", "/v1/audit")[0]
    assert (record["action"], record["actor"], record["reason"]) == ("job.resume", "bob", "within budget")
    assert record["before"] == {"state": "suspended", "suspendedBy": "AccessGate.budget.x", "resume": "approver"}


def test_gates_that_suspend_a_job_in_turn_each_ask_for_their_own(admin: Any, bearer: Callable[..., Any]) -> None:
    job_id = admin.submit("ada")
    path = f"/v1/job/resume/{job_id}"
    writer, approver = bearer(Privilege.WRITE_JOB), bearer(Privilege.APPROVE_JOB, forwho="bob")
    suspend(job_id, "a", Resumer.APPROVER)
    assert writer("PUT", path).status_code == 403
    assert approver("PUT", path, json={"gate": "b"}).status_code == 409
    assert approver("PUT", path, json={"gate": "a"}).status_code == 200
    suspend(job_id, "b", Resumer.WRITER)
    assert approver("PUT", path).status_code == 403
    assert writer("PUT", path).status_code == 200
    assert approver("PUT", path).status_code == 409
    suspend(job_id, "a", Resumer.APPROVER)
    assert admin("PUT", path).status_code == 200
    suspend(job_id, "a", Resumer.APPROVER)
    assert approver("PUT", f"/v1/job/stop/{job_id}").status_code == 403
    assert writer("PUT", f"/v1/job/stop/{job_id}").status_code == 200


def test_the_same_idempotency_key_and_body_is_the_same_job(admin: Any, bearer: Callable[..., Any]) -> None:
    body = {"userID": "ada", "jobName": "n", "jobKind": "K", "job": {"kind": "K"}}
    keyed = {"headers": {"Idempotency-Key": "key-1"}}
    first, second = (admin.payload("POST", "/v1/job", json=body, **keyed) for _ in range(2))
    assert first == second
    assert admin("POST", "/v1/job", json=body | {"jobName": "m"}, **keyed).json["code"] == "UNSUPPORTED_OPERATION"
    assert bearer(Privilege.WRITE_JOB).payload("POST", "/v1/job", json=body, **keyed) != first
    assert admin.payload("GET", "/v1/job/count") == {"count": 2}
    for key in ("", " ", "a b", "x" * 256):
        assert admin("POST", "/v1/job", json=body, headers={"Idempotency-Key": key}).status_code == 400


def test_a_retry_with_the_same_idempotency_key_is_made_once(admin: Any) -> None:
    job_id = admin.submit()
    admin.payload("PUT", f"/v1/job/stop/{job_id}")
    keyed = {"headers": {"Idempotency-Key": "again"}}
    first, second = (admin.payload("POST", f"/v1/job/retry/{job_id}", **keyed) for _ in range(2))
    assert first == second
    other = admin.submit()
    admin.payload("PUT", f"/v1/job/stop/{other}")
    assert admin("POST", f"/v1/job/retry/{other}", **keyed).status_code == 409
    assert admin.payload("POST", f"/v1/job/retry/{job_id}") != first
    assert admin.payload("GET", "/v1/job/count") == {"count": 4}


@pytest.fixture
def jobs(admin: Any) -> list[str]:
    """Five jobs, a minute apart, the oldest first."""
    start = datetime(2026, 1, 31, 12, tzinfo=UTC)
    made = []
    with transaction() as session:
        for number, (user, name, kind, state) in enumerate(
            [
                ("ada", "mnist-1", "TFJob", "succeeded"),
                ("ada", "mnist-2", "TFJob", "running"),
                ("bob", "resnet", "PyTorchJob", "failed"),
                ("bob", "100%", "TFJob", "stopped"),
                ("cy", "mn_st", "TFJob", "waiting"),
            ]
        ):
            moment = start + timedelta(minutes=number, milliseconds=500)
            job = Job(id=new_job_id(moment), user_id=user, name=name, kind=kind, state=state, created_at=moment,
                      namespace="default", stage="cluster" if state == "running" else "translate")  # fmt: skip
            session.add(job)
            made.append(job.id)
    return made


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", [4, 3, 2, 1, 0]),
        ("?order=asc", [0, 1, 2, 3, 4]),
        ("?userID=ada", [1, 0]),
        ("?userID=ada,cy&order=asc", [0, 1, 4]),
        ("?kind=PyTorchJob", [2]),
        ("?state=Completed", [3, 2, 0]),
        ("?state=pending,running", [4, 1]),
        ("?stage=cluster", [1]),
        ("?name=mnist", [1, 0]),
        ("?name=mn_", [4]),
        ("?name=100%25", [3]),
        ("?name=%25", []),
        ("?userID=bob&state=failed&kind=PyTorchJob,TFJob", [2]),
        # The second of submission counts as a whole, at either end.
        ("?startAt=1769860860", [4, 3, 2, 1]),
        ("?startAt=1769860861", [4, 3, 2]),
        ("?endAt=1769860860", [1, 0]),
        ("?endAt=1769860859", [0]),
        ("?startAt=1769860860&endAt=1769860920", [2, 1]),
        ("?startAt=1769860920&endAt=1769860860", []),
        ("?pageSize=2", [4, 3]),
        ("?pageSize=2&pageNumber=3", [0]),
        ("?pageSize=2&pageNumber=1000000000", []),
    ],
)
def test_a_list_has_what_its_query_asks_for(admin: Any, jobs: list[str], query: str, expected: list[int]) -> None:
    assert ids(admin, query) == [jobs[number] for number in expected]
    if "page" not in query and "order" not in query:
        assert admin.payload("GET", f"/v1/job/count{query}") == {"count": len(expected)}


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_cursors_lead_through_the_whole_list_once(admin: Any, jobs: list[str], order: str) -> None:
    seen: list[str] = []
    query = f"?pageSize=2&order={order}"
    cursor = ""
    while cursor is not None:
        answer = admin("GET", f"/v1/job/list{query}{cursor and f'&cursor={cursor}'}")
        assert answer.headers["X-Total-Count"] == "5"
        seen += [job["jobID"] for job in answer.json["payload"]]
        cursor = answer.headers.get("X-Next-Cursor")
    assert seen == (jobs if order == "asc" else jobs[::-1])


def test_a_total_is_counted_up_to_ten_thousand_and_a_count_beyond(admin: Any) -> None:
    with transaction() as session:
        session.connection().exec_driver_sql(
            "INSERT INTO jobs (id, user_id, name, kind, namespace, state, stage, epoch, reason, event_sequence, attempt,"
            " retried, created_at, suspended_by, on_timeout, resumer, exit_diagnostics, submitted_by, request_id, traceparent)"
            " SELECT 'j' || lpad(n::text, 26, '0'), 'u', 'n', 'k', 'default', 'waiting', 'translate', 0, '', 0, 0, 0, now(),"
            " '', '', '', '', '', '', '' FROM generate_series(1, 10001) n"
        )
    answer = admin("GET", "/v1/job/list?pageSize=1&pageNumber=10001")
    assert len(answer.json["payload"]) == 1
    assert (answer.headers["X-Total-Count"], answer.headers["X-Total-Count-Exact"]) == ("10000", "false")
    assert admin.payload("GET", "/v1/job/count") == {"count": 10001}


def test_an_own_only_token_sees_and_touches_its_users_jobs_alone(
    admin: Any, bearer: Callable[..., Any], jobs: list[str]
) -> None:
    ada = bearer(Privilege.READ_JOB, Privilege.WRITE_JOB, own_only=True)
    theirs = jobs[2]
    assert ids(ada) == [jobs[1], jobs[0]]
    assert ids(ada, "?userID=bob") == []
    assert ada.payload("GET", "/v1/job/count") == {"count": 2}
    for part in ("config", "taskset", "detail", "trail", "events", "logs"):
        assert ada("GET", f"/v1/job/{part}/{theirs}").status_code == 404
    for method, path in (("PUT", "stop"), ("PUT", "resume"), ("POST", "retry")):
        assert ada(method, f"/v1/job/{path}/{theirs}").status_code == 404
    body = {"userID": "bob", "jobName": "n", "jobKind": "K", "job": {"kind": "K"}}
    assert ada("POST", "/v1/job", json=body).json["code"] == "PERMISSION_DENIED"
    assert ada.submit() in ids(ada)


def test_detail_is_filled_from_what_was_recorded(admin: Any) -> None:
    job_id = admin.submit(kind="TaskSet", job=TASKSET)
    with transaction() as session:
        session.add(Replica(job_id=job_id, role="worker", index=0, state="running", started_at=now()))
        session.execute(
            update(JobDocument).where(JobDocument.job_id == job_id)
            .values(roles={"ps": "waiting", "worker": "running"}, platform={"platform": "local"})
        )  # fmt: skip
    found = admin.payload("GET", f"/v1/job/detail/{job_id}")
    assert [(task["name"], task["state"], len(task["replicas"])) for task in found["tasks"]] == [
        ("ps", "waiting", 0),
        ("worker", "running", 1),
    ]
    assert found["platformSpecificInfo"]["platform"] == "local"
    assert [task["name"] for task in found["platformSpecificInfo"]["taskRuntimeInfo"]] == ["ps", "worker"]


def test_the_trail_masks_secrets(admin: Any) -> None:
    job_id = admin.submit()
    patch = [{"op": "add", "path": "/spec/roles/0/template/spec/containers/0/env",
              "value": [{"name": "API_TOKEN", "value": "hunter2"}]}]  # fmt: skip
    with transaction() as session:
        session.add(TrailRow(job_id=job_id, epoch=0, stage="decorate", plugin_key="TemplateDecorator.f.a",
                               started_at=now(), outcome="answered", attempts=1, duration_ms=12, patch=patch))  # fmt: skip
    (entry,) = admin.payload("GET", f"/v1/job/trail/{job_id}")
    assert "hunter2" not in json.dumps(entry)
    assert (entry["plugin"], entry["attempts"], entry["durationMs"]) == ("TemplateDecorator.f.a", 1, 12)


def test_events_show_the_status_of_each_delivery(admin: Any) -> None:
    job_id = admin.submit()
    with transaction() as session:
        (event_id,) = session.connection().exec_driver_sql("SELECT id FROM events").one()
        session.add(Delivery(id="d1", event_id=event_id, subject_id=job_id, sequence=1, plugin_key="LifeHook.f.a", attempts=3,
                             last_answer="RE", created_at=now(), next_at=now(), give_up_at=now()))  # fmt: skip
    (event,) = admin.payload("GET", f"/v1/job/events/{job_id}")
    (delivery,) = event["deliveries"]
    assert (delivery["plugin"], delivery["status"], delivery["attempts"]) == ("LifeHook.f.a", "waiting", 3)
    (listed,) = admin.payload("GET", f"/v1/hooks/deliveries?plugin=LifeHook.f.a&status=waiting&jobID={job_id}")
    assert listed["id"] == "d1"
    assert admin("POST", "/v1/hooks/redeliver/d1").status_code == 409


class Talking:
    """A cluster that has these lines, and signs of life."""

    def __init__(self, *lines: LogLine | None, error: Exception | None = None) -> None:
        self.lines = lines
        self.error = error
        self.asked: list[LogQuery] = []

    def logs(self, job_id: str, query: LogQuery) -> Iterator[LogLine | None]:
        self.asked.append(query)
        if self.error:
            raise self.error
        yield from self.lines


def test_lines_of_several_replicas_are_prefixed_and_those_of_one_are_not(
    admin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Talking(LogLine(now(), "worker-0", "héllo"), LogLine(now(), "worker-1", ""))
    monkeypatch.setattr(logs, "cluster", lambda: cluster)
    job_id = admin.submit(kind="TaskSet", job=TASKSET)
    answer = admin("GET", f"/v1/job/logs/{job_id}?tail=5&since=0&attempt=1")
    assert answer.mimetype == "text/plain"
    assert answer.text == "worker-0 | héllo\nworker-1 | \n"
    assert admin("GET", f"/v1/job/logs/{job_id}?task=worker").text.startswith("worker-0 | ")
    assert admin("GET", f"/v1/job/logs/{job_id}?task=ps").text == "héllo\n\n"
    assert admin("GET", f"/v1/job/logs/{job_id}?replica=1").text == "héllo\n\n"
    assert cluster.asked[0] == LogQuery(attempt=1, tail=5, since=datetime.fromtimestamp(0, UTC))
    assert cluster.asked[2] == LogQuery(role="ps")
    assert admin("GET", f"/v1/job/logs/{job_id}?task=nobody").status_code == 404
    assert admin("GET", f"/v1/job/logs/{job_id}?task=worker&replica=2").status_code == 404


def test_a_keep_alive_adds_no_text(admin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    line = LogLine(now(), "a", "one")
    monkeypatch.setattr(logs, "cluster", lambda: Talking(None, None, line, None, line, None))
    assert admin("GET", f"/v1/job/logs/{admin.submit()}?follow=true").text == "one\none\n"


def test_an_attempt_that_does_not_exist_is_not_found(admin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "cluster", lambda: Talking(error=NoSuchAttempt("There is no attempt 7: the last is 1.")))
    answer = admin("GET", f"/v1/job/logs/{admin.submit()}?attempt=7")
    assert (answer.status_code, answer.json["code"]) == (404, "OPERATION_TARGET_NOT_FOUND")
    assert answer.json["msg"] == "There is no attempt 7: the last is 1."


@pytest.mark.parametrize("follow", ["", "?follow=true"])
def test_expired_logs_are_distinguished_from_empty_ones(admin: Any, follow: str) -> None:
    job_id = admin.submit()
    with transaction() as session:
        session.execute(update(Job).values(logs_pruned_at=datetime(2026, 3, 1, 12, tzinfo=UTC)))
    answer = admin("GET", f"/v1/job/logs/{job_id}{follow}")
    assert (answer.status_code, answer.json["code"]) == (410, "OPERATION_TARGET_NOT_FOUND")
    assert answer.json["msg"] == f'The logs of job "{job_id}" expired on 2026-03-01T12:00:00Z.'


@pytest.mark.parametrize(
    ("job", "states", "query", "expected"),
    [
        ({}, [], LogQuery(), False),
        ({"stage": "launch"}, ["failed"], LogQuery(index=0), False),
        ({"state": "running"}, ["succeeded", "running"], LogQuery(), False),
        ({"state": "running"}, ["succeeded", "running"], LogQuery(index=0), True),
        ({"state": "running"}, ["succeeded", "running"], LogQuery(role="worker", index=1), False),
        ({"state": "running"}, ["succeeded", "running"], LogQuery(role="worker", attempt=0), True),
        ({"stage": "launch"}, [], LogQuery(attempt=0), False),
        ({"stage": "launch", "attempt": 1}, [], LogQuery(attempt=0), True),
        ({"state": "running", "retry_at": datetime(2026, 3, 1, tzinfo=UTC)}, ["failed"], LogQuery(index=0), False),
        ({"state": "running"}, [], LogQuery(role="worker"), False),
        ({"state": "stopped"}, ["stopped", "running"], LogQuery(), True),
    ],
)
def test_following_ends_with_what_is_asked_for(
    admin: Any, job: dict[str, Any], states: list[str], query: LogQuery, expected: bool
) -> None:
    job_id = admin.submit()
    with transaction() as session:
        session.execute(update(Job).values({"stage": "cluster", **job}) if job else update(Job).values(stage="gates"))
        session.add_all(
            Replica(job_id=job_id, role="worker", index=index, state=state) for index, state in enumerate(states)
        )
    look = logs.finished(job_id, query)
    assert look() is expected
    assert look() is False, "it looks once in a while only"


def test_an_error_before_the_first_line_is_answered_in_the_envelope(
    admin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "cluster", lambda: Talking(error=ClusterUnavailable("The cluster does not answer.")))
    answer = admin("GET", f"/v1/job/logs/{admin.submit()}")
    assert (answer.status_code, answer.json["code"]) == (503, "INTERNAL_ERROR")


def test_followers_are_limited_and_release_their_slots(admin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "cluster", lambda: Talking(LogLine(now(), "a", "one"), LogLine(now(), "a", "two")))
    places = streaming.StreamSlots("followers", 1)
    monkeypatch.setattr(streaming, "_follower_slots", lambda: places)
    path = f"/v1/job/logs/{admin.submit()}?follow=true"
    first = admin("GET", path)
    answer = admin("GET", path)
    assert (answer.status_code, answer.json["code"]) == (503, "INTERNAL_ERROR")
    assert int(answer.headers["Retry-After"]) > 0
    assert admin("GET", path.split("?")[0]).status_code == 200
    first.close()
    monkeypatch.setattr(logs, "cluster", lambda: Talking(error=ClusterUnavailable("away")))
    assert admin("GET", path).json["msg"] == "away"
    assert admin("GET", path).json["msg"] == "away"


def talking(*texts: str) -> Talking:
    moment = datetime(2026, 3, 1, 12, tzinfo=UTC)
    return Talking(*(LogLine(moment, "worker-0", text, origin="0/worker-0") for text in texts))


def records(client: Any, path: str) -> list[dict[str, Any]]:
    answer = client("GET", path)
    assert (answer.status_code, answer.mimetype) == (200, "application/x-ndjson"), answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


def test_a_reader_goes_on_from_a_cursor_without_lost_or_repeated_lines(
    admin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "cluster", lambda: talking("one", "two"))
    path = f"/v1/job/logs/{admin.submit()}?format=json"
    *lines, end = records(admin, path)
    assert [line["text"] for line in lines] == ["one", "two"]
    assert lines[0] == {"time": "2026-03-01T12:00:00Z", "source": "worker-0", "text": "one", "open": False}
    monkeypatch.setattr(logs, "cluster", lambda: talking("one", "two", "two", "three"))
    *lines, end = records(admin, f"{path}&cursor={end['cursor']}")
    assert [line["text"] for line in lines] == ["two", "three"]
    assert records(admin, f"{path}&follow=true&cursor={end['cursor']}") == [end]


def test_a_cursor_comes_after_so_many_lines_and_where_no_lines_come(
    admin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "CURSOR_LINES", 2)
    moment = now()
    some = [LogLine(moment, "a", str(number), origin="a") for number in range(3)]
    monkeypatch.setattr(logs, "cluster", lambda: Talking(*some, None, None))
    shown = records(admin, f"/v1/job/logs/{admin.submit()}?format=json&follow=true")
    assert [record.get("text", "cursor") for record in shown] == ["0", "1", "cursor", "2", "cursor", "cursor"]


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ("format=xml", "format"),
        ("format=json&cursor=x", "cursor"),
        ("cursor={}", "format=json"),
        ("format=json&cursor={}&tail=1", "tail"),
        ("format=json&cursor={}&since=1", "since"),
    ],
)
def test_a_cursor_that_is_wrong_or_stands_beside_what_it_does_not_go_with_is_refused(
    admin: Any, query: str, word: str
) -> None:
    answer = admin("GET", f"/v1/job/logs/{admin.submit()}?{query.format(LogCursor())}")
    assert (answer.status_code, answer.json["code"]) == (400, "WRONG_PARAM")
    assert word in answer.json["msg"]
