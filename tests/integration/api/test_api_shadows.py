"""Shadows over HTTP: their report and the trail, and promotion."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from pipeline_core.auth.privileges import Privilege
from pipeline_core.database import transaction
from pipeline_core.database.models import ShadowAnswer, TrailRow
from pipeline_core.metrics.totals import Metric, totals
from tests.builders import feature, plugin, taskset

OLD, NEW = "AccessGate.old.platform", "AccessGate.new.platform"
THEN = datetime(2026, 3, 1, tzinfo=UTC)


def register(admin: Any) -> None:
    admin.payload("POST", "/v1/features", json=feature("old", enabled=True))
    shadow = plugin(mode="shadow", shadowOf=OLD)
    admin.payload("POST", "/v1/features", json=feature("new", shadow, enabled=True))


def answered(admin: Any, user: str, decided: str, answer: str, **fields: Any) -> str:
    """A job of the user, with what the gate decided and what its shadow answered."""
    body = {"userID": user, "jobName": "mnist", "jobKind": "TaskSet", "job": taskset()}
    job_id = str(admin.payload("POST", "/v1/job", json=body)["jobID"])
    of_job = {"job_id": job_id, "stage": "gates", "started_at": THEN, "outcome": "answered"}
    with transaction() as session:
        row = TrailRow(**of_job, epoch=0, plugin_key=OLD, decision=decided, duration_ms=10)
        session.add(row)
        session.flush()
        values = {"agrees": decided == answer, "decision": answer, "duration_ms": 30, "trail_id": row.id, **fields}
        session.add(ShadowAnswer(**{**of_job, **values}, plugin_key=NEW, shadow_of=OLD))
    return job_id


def report(client: Any, query: str = "") -> Any:
    return client.payload("GET", f"/v1/plugins/shadow/{NEW}{query}")


def test_a_file_that_is_older_than_a_promotion_is_refused(admin: Any) -> None:
    register(admin)
    admin.payload("PUT", f"/v1/plugins/promote/{NEW}")
    answer = admin("POST", "/v1/features", json=feature("old", enabled=True))
    assert answer.status_code == 400
    assert answer.get_json()["errors"] == {
        "plugins[0].mode": [
            f'must be given: the plugin is a shadow of {NEW} now. "shadow" leaves it one, "active" lets it decide'
        ]
    }
    admin.payload("POST", "/v1/features", json=feature("old", enabled=True, mode="active"))
    assert admin.payload("GET", f"/v1/plugins/detail/{OLD}")["mode"] == "active"


def test_a_report_counts_what_was_dropped(admin: Any, bearer: Callable[..., Any]) -> None:
    register(admin)
    totals().count(Metric.SHADOWS_DROPPED, (NEW,), 3)
    assert report(admin)["dropped"] == 3
    assert report(bearer(Privilege.READ_JOB, own_only=True))["dropped"] is None


def test_a_report_counts_and_shows_where_both_differ(admin: Any, bearer: Callable[..., Any]) -> None:
    register(admin)
    answered(admin, "ada", "pass", "pass")
    other = answered(admin, "bob", "pass", "stop", reason="too large")
    answered(admin, "bob", "pass", "", outcome="failed", agrees=None, reason="no connection")
    found = report(admin)
    counts = [found[name] for name in ("answers", "agreed", "disagreed", "errors", "notCompared")]
    assert counts == [3, 1, 1, 1, 0]
    assert (found["mode"], found["shadowOf"]) == ("shadow", OLD)
    assert found["latency"] == {
        "shadow": {"meanMs": 30, "medianMs": 30, "p95Ms": 30},
        "decided": {"meanMs": 10, "medianMs": 10, "p95Ms": 10},
    }
    (pair,) = found["disagreements"]
    assert (pair["jobID"], pair["shadow"]["decision"], pair["decided"]["decision"]) == (other, "stop", "pass")
    assert (pair["shadow"]["durationMs"], pair["decided"]["durationMs"]) == (30, 10)
    (error,) = found["lastErrors"]
    assert (error["shadow"]["outcome"], error["shadow"]["reason"]) == ("failed", "no connection")

    assert report(admin, f"?since={int(THEN.timestamp()) + 1}")["answers"] == 0
    answered(admin, "bob", "pass", "stop")
    assert [len(report(admin, f"?most={most}")["disagreements"]) for most in (1, 2)] == [1, 2]
    ada = bearer(Privilege.READ_JOB, own_only=True, forwho="ada")
    assert [report(ada)[name] for name in ("answers", "agreed", "disagreements")] == [1, 1, []]
    assert admin("GET", "/v1/plugins/shadow/AccessGate.no.one").status_code == 404


def test_a_trail_has_the_answers_of_shadows_at_its_end(admin: Any) -> None:
    register(admin)
    job_id = answered(admin, "ada", "pass", "stop", patch=[{"op": "add", "path": "/env/0/value", "value": "secret"}])
    active, shadow = admin.payload("GET", f"/v1/job/trail/{job_id}")
    assert (active["mode"], active["plugin"], active["asking"]) == ("active", OLD, 1)
    assert (shadow["mode"], shadow["plugin"], shadow["asking"], shadow["decision"]) == ("shadow", NEW, 0, "stop")
    assert "secret" not in str(shadow)


def test_a_promotion_is_made_once_for_one_key_and_taken_back_by_another(admin: Any) -> None:
    register(admin)
    headers = {"Idempotency-Key": "k1"}
    first = admin.payload("PUT", f"/v1/plugins/promote/{NEW}", headers=headers)
    again = admin.payload("PUT", f"/v1/plugins/promote/{NEW}", headers=headers)
    assert first == again
    assert (first["promoted"]["key"], first["promoted"]["mode"]) == (NEW, "active")
    assert (first["replaced"]["key"], first["replaced"]["shadowOf"]) == (OLD, NEW)
    answer = admin("PUT", f"/v1/plugins/promote/{NEW}")
    assert (answer.status_code, answer.json["code"]) == (409, "UNSUPPORTED_OPERATION")
    back = admin.payload("PUT", f"/v1/plugins/promote/{OLD}", headers={"Idempotency-Key": "k2"})
    assert (back["promoted"]["key"], back["replaced"]["key"]) == (OLD, NEW)
    entries = admin.payload("GET", "/v1/audit")
    assert [entry["target"] for entry in entries if entry["action"] == "plugin.promote"] == [OLD, NEW]


def test_a_promotion_sent_again_names_the_plugin_that_it_replaced_also_beside_other_shadows(admin: Any) -> None:
    admin.payload("POST", "/v1/features", json=feature("old", enabled=True))
    for name in ("another", "new"):
        admin.payload("POST", "/v1/features", json=feature(name, plugin(mode="shadow", shadowOf=OLD), enabled=True))
    headers = {"Idempotency-Key": "k1"}
    promoted = admin.payload("PUT", f"/v1/plugins/promote/{NEW}", headers=headers)
    assert promoted["replaced"]["key"] == OLD
    assert admin.payload("PUT", f"/v1/plugins/promote/{NEW}", headers=headers) == promoted
