"""The plan of a job over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import func, select

from pipeline_core.auth.privileges import Privilege
from pipeline_core.common.clock import now
from pipeline_core.database import transaction
from pipeline_core.database.models import Event, Job, Step
from pipeline_core.jobs import claims, cursor
from pipeline_core.stages.names import Stage
from pipeline_core.stages.outcomes import Advance, ClaimedStep, TrailEntry, TrailOutcome
from tests.builders import taskset

JOB: dict[str, Any] = {"userID": "ada", "jobName": "mnist", "jobKind": "TFJob", "job": {"kind": "TFJob"}}
DEBUG = {"conditions": [{"name": "debug", "key": "type", "expect": "/^deb/"}], "expression": "debug && userID"}


def register(admin: Any, name: str, *types: str, on: bool = True, selector: Any = None) -> None:
    plugins = [{"pluginType": type, "callAddress": "http://127.0.0.1:9/"} for type in types]
    feature = {"name": name, "author": "tests", "enabled": on, "plugins": plugins, "jobSelector": selector}
    admin.payload("POST", "/v1/features", json=feature)


def explained(client: Any, **changes: Any) -> Any:
    return client.payload("POST", "/v1/job/explain", json={**JOB, **changes})


def stage(plan: Any, name: str) -> Any:
    return next(stage for stage in plan["stages"] if stage["stage"] == name)


def test_a_plan_names_each_stages_plugins_with_the_values_of_their_conditions(admin: Any) -> None:
    register(admin, "tf", "TemplateTranslator", "AccessGate", "LifeHook")
    register(admin, "quota", "AccessGate", "LifeHook", selector=DEBUG)
    register(admin, "old", "AccessGate", on=False)
    plan = explained(admin, header={"type": "batch"})
    assert [stage["stage"] for stage in plan["stages"]] == [
        "translate",
        "factors",
        "gates",
        "decorate",
        "bind",
        "launch",
    ]
    assert [
        (gate["key"], gate["sequence"], gate["enabled"], gate["runs"]) for gate in stage(plan, "gates")["plugins"]
    ] == [
        ("AccessGate.tf.tests", 1, True, True),
        ("AccessGate.quota.tests", 2, True, False),
        ("AccessGate.old.tests", 3, False, False),
    ]
    assert stage(plan, "gates")["plugins"][1]["selector"] == {
        "expression": "debug && userID",
        "matched": False,
        "conditions": [
            {"name": "debug", "key": "type", "expect": "/^deb/", "found": "batch", "matched": False},
            {"name": "userID", "key": "userID", "expect": None, "found": "ada", "matched": True},
        ],
    }
    assert [(hook["runs"], len(hook["states"])) for hook in plan["lifeHooks"]] == [(True, 6), (False, 0)]
    assert (plan["namespace"], plan["tasksetCheck"]) == ("default", None)
    matched = explained(admin, header={"type": "debug"})
    assert stage(matched, "gates")["outcome"].startswith("2 plugins are asked one after the other")


def test_a_plan_follows_the_registry_at_once(admin: Any) -> None:
    register(admin, "tf", "TemplateTranslator", on=False)
    assert stage(explained(admin), "translate")["fails"]
    admin.payload("PUT", "/v1/features/turn-on/tf")
    plan = explained(admin)
    assert stage(plan, "translate")["outcome"] == "TemplateTranslator.tf.tests is asked."
    assert all(stage["reached"] for stage in plan["stages"])


def test_nothing_is_stored(admin: Any) -> None:
    explained(admin, jobKind="TaskSet", job=taskset())
    with transaction() as session:
        assert [session.scalar(select(func.count()).select_from(table)) for table in (Job, Event, Step)] == [0, 0, 0]


def test_a_taskset_passes_its_check_or_is_refused_as_a_submission_is(admin: Any) -> None:
    assert explained(admin, jobKind="TaskSet", job=taskset())["tasksetCheck"] == "passed"
    body = {**JOB, "jobKind": "TaskSet", "job": taskset(replicas=-1)}
    answers = [admin("POST", path, json=body) for path in ("/v1/job/explain", "/v1/job")]
    assert [answer.status_code for answer in answers] == [400, 400]
    assert answers[0].json == answers[1].json


@pytest.mark.parametrize("body", [{}, {**JOB, "jobKind": "Other"}, {**JOB, "extra": 1}, []])
def test_a_body_that_is_no_submission_is_refused(admin: Any, body: Any) -> None:
    answers = [admin("POST", path, json=body) for path in ("/v1/job/explain", "/v1/job")]
    assert answers[0].status_code == 400
    assert answers[0].json == answers[1].json


def test_an_own_only_token_asks_for_its_user_alone(bearer: Callable[..., Any]) -> None:
    client = bearer(Privilege.WRITE_JOB, own_only=True)
    assert explained(client)["header"]["userID"] == "ada"
    answer = client("POST", "/v1/job/explain", json={**JOB, "userID": "bob"})
    assert (answer.status_code, answer.json["code"]) == (403, "PERMISSION_DENIED")


def test_the_plan_of_a_job_that_exists_stands_beside_what_happened(admin: Any, bearer: Callable[..., Any]) -> None:
    register(admin, "quota", "AccessGate")
    job_id = admin.submit(header={"type": "debug"})
    claim = claims.claim(job_id, 0, Stage.TRANSLATE, "w")
    assert isinstance(claim, ClaimedStep)
    entry = TrailEntry(plugin_key="T.gone.x", outcome=TrailOutcome.ANSWERED, started_at=now(), reason="fine")
    cursor.finish(claim, Advance(trail=[entry], taskset=taskset()))
    register(admin, "late", "AccessGate", selector=DEBUG)
    plan = admin.payload("GET", f"/v1/job/explain/{job_id}")
    assert (plan["jobID"], plan["state"], plan["stage"], plan["standIn"]) == (job_id, "waiting", "gates", None)
    assert plan["header"]["jobID"] == job_id
    assert [gate["key"] for gate in stage(plan, "gates")["plugins"]] == [
        "AccessGate.quota.tests",
        "AccessGate.late.tests",
    ]
    assert [(call["plugin"], call["reason"]) for call in stage(plan, "translate")["calls"]] == [("T.gone.x", "fine")]
    assert stage(plan, "gates")["calls"] == []
    assert (
        bearer(Privilege.READ_JOB, forwho="bob", own_only=True)("GET", f"/v1/job/explain/{job_id}").status_code == 404
    )


def test_blame_names_the_translator_and_the_taskset_as_it_is(admin: Any, bearer: Callable[..., Any]) -> None:
    job_id = admin.submit()
    assert admin.payload("GET", f"/v1/job/blame/{job_id}") == {"first": None, "changes": [], "taskset": None}
    claim = claims.claim(job_id, 0, Stage.TRANSLATE, "w")
    assert isinstance(claim, ClaimedStep)
    patch = [{"op": "replace", "path": "", "value": taskset()}]
    entry = TrailEntry(plugin_key="T.tf.x", outcome=TrailOutcome.ANSWERED, started_at=now(), patch=patch)
    cursor.finish(claim, Advance(trail=[entry], taskset=taskset()))
    found = admin.payload("GET", f"/v1/job/blame/{job_id}")
    assert [(change["stage"], change["plugin"], change["patch"]) for change in found["changes"]] == [
        ("translate", "T.tf.x", patch)
    ]
    assert found["taskset"] == taskset()
    own = admin.submit(kind="TaskSet", job=taskset())
    found = admin.payload("GET", f"/v1/job/blame/{own}")
    assert (found["first"], found["changes"]) == (found["taskset"], [])
    assert found["first"]["metadata"]["name"] == own
    assert bearer(Privilege.READ_JOB, forwho="bob", own_only=True)("GET", f"/v1/job/blame/{job_id}").status_code == 404
