"""Flows and templates over a real database: documents are exported as they were imported, or refused as a whole."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select

from pipeline_core.auth.actor import SYSTEM
from pipeline_core.auth.privileges import Privilege
from pipeline_core.database import transaction
from pipeline_core.database.models import FlowRow, TemplateRevision
from pipeline_core.flows import lookup
from pipeline_core.flows.definition import documents
from pipeline_core.flows.definition.documents import read_entry
from pipeline_core.flows.definition.flow import dump_document
from pipeline_core.flows.store import flows as flow_store
from pipeline_core.flows.store import templates as template_store
from pipeline_core.settings import Settings
from tests.waiting import HANG_SECONDS

CASES = Path(__file__).parents[2] / "cases" / "flows"
FILES = sorted(path.name for path in CASES.glob("case*.json"))
NEGATIVE = {row["id"]: row["document"] for row in json.loads((CASES / "negative-cases.json").read_text())}


def case(name: str) -> Any:
    return json.loads((CASES / name).read_text())


def entry(name: str = "sales", *tasks: str, **pipeline: Any) -> dict[str, Any]:
    """A flow of these tasks, which run nothing."""
    return {
        "pipeline": {"name": name, **pipeline},
        "tasks": [{"job_templete": "logical", "name": task} for task in tasks or ("a",)],
    }


def sent(document: Any) -> dict[str, Any]:
    """The options that send a document with its keys in their order: the test client would sort them."""
    return {"data": json.dumps(document), "content_type": "application/json"}


def template(name: str, **fields: Any) -> dict[str, Any]:
    return {name: {"job_template_name": name, "image_name": "busybox", **fields}}


@pytest.fixture
def site(app: Flask, admin: Any, monkeypatch: pytest.MonkeyPatch, service_settings: Settings) -> None:
    """The installation that the cases are written for, with their templates."""
    chosen = case("settings.json")
    fitting = replace(
        service_settings,
        projects=(chosen["PIPELINE_PROJECTS"],),
        host_paths=(chosen["PIPELINE_HOST_PATHS"],),
        gpu_resources=tuple(chosen["PIPELINE_GPU_RESOURCES"].items()),
        vgpu_resource=tuple(chosen["PIPELINE_VGPU_RESOURCE"].items()),
        rdma_resource=chosen["PIPELINE_RDMA_RESOURCE"],
    )
    for store in (flow_store, template_store):
        monkeypatch.setattr(store, "settings", lambda: fitting)
    admin.payload("POST", "/v1/templates", **sent(case("support-job-templates.json")))


def flows(client: Any) -> list[str]:
    return [flow["name"] for flow in client.payload("GET", "/v1/flows")]


@pytest.mark.usefixtures("site")
@pytest.mark.parametrize("name", FILES)
def test_a_document_that_is_imported_is_exported_as_the_same_bytes(admin: Any, name: str) -> None:
    text = (CASES / name).read_text()
    document = json.loads(text)
    pipelines = [each["pipeline"] for each in document.values()]
    scheduled = [pipeline["name"] for pipeline in pipelines if pipeline.get("schedule_type") == "crontab"]
    for paused in (scheduled, []):
        imported = admin.payload("POST", "/v1/flows/import", **sent(document))
        expected = {"flows": [pipeline["name"] for pipeline in pipelines]}
        assert imported == expected | ({"paused": paused} if paused else {})
        answer = admin("GET", f"/v1/flows/export?names={','.join(document)}")
        document = json.loads(answer.text)["payload"]
        assert dump_document(document) == text


@pytest.mark.usefixtures("site")
@pytest.mark.parametrize("name", NEGATIVE)
def test_a_document_that_cannot_run_is_refused_with_its_path_and_nothing_is_stored(admin: Any, name: str) -> None:
    refused = NEGATIVE[name]
    document = refused if not isinstance(refused, dict) else {**refused, "good": entry("good")}
    answer = admin("POST", "/v1/flows/import", **sent(document))
    assert (answer.status_code, answer.json["code"] in ("WRONG_PARAM", "LACK_OF_PARAM")) == (400, True), answer.text
    if isinstance(refused, dict):
        assert all(path.split(".")[0] in refused for path in answer.json["errors"]), answer.json["errors"]
    assert flows(admin) == []


@pytest.mark.usefixtures("site")
def test_export_has_all_by_name_or_those_asked_for_in_that_order(admin: Any) -> None:
    admin.payload("POST", "/v1/flows/import", json={name: entry(name) for name in ("b", "C_c", "a")})
    assert [*admin.payload("GET", "/v1/flows/export")] == ["a", "b", "C_c"]
    assert [*admin.payload("GET", "/v1/flows/export?names=c-c,a,A")] == ["C_c", "a"]
    assert admin("GET", "/v1/flows/export?names=a,ghost").status_code == 404


def test_a_flow_is_created_read_replaced_and_deleted_in_either_spelling(admin: Any) -> None:
    first = entry("Daily_Sales", parallelism="3", describe="每日")
    admin.payload("POST", "/v1/flows", **sent(first))
    assert admin("GET", "/v1/flows/daily-sales").text.count('"parallelism":"3"') == 1
    assert admin.payload("GET", "/v1/flows/DAILY_sales") == first
    again = admin("POST", "/v1/flows", json=entry("daily-sales"))
    assert (again.status_code, again.json["code"]) == (409, "UNSUPPORTED_OPERATION")
    second = entry("daily_sales", "a", "b")
    admin.payload("PUT", "/v1/flows/daily-sales", **sent(second))
    assert admin.payload("GET", "/v1/flows/daily-sales") == second
    # An export writes the key that came in.
    assert [*admin.payload("GET", "/v1/flows/export")] == ["Daily_Sales"]
    admin.payload("DELETE", "/v1/flows/Daily_sales")
    assert admin("DELETE", "/v1/flows/Daily_sales").status_code == 404


def test_a_replacement_agrees_with_the_path_and_needs_a_flow_to_replace(admin: Any) -> None:
    assert admin("PUT", "/v1/flows/sales", json=entry("sales")).status_code == 404
    admin.payload("POST", "/v1/flows", json=entry("sales"))
    answer = admin("PUT", "/v1/flows/sales", json=entry("other"))
    assert (answer.status_code, [*answer.json["errors"]]) == (400, ["pipeline.name"])


def test_the_body_is_read_before_the_target_is_looked_for(admin: Any) -> None:
    assert admin("PUT", "/v1/flows/nothing", json={}).status_code == 400
    assert admin("POST", "/v1/flows/nothing/run", json={"odd": 1}).status_code == 400


def test_all_wrong_fields_are_reported_at_once(admin: Any) -> None:
    wrong = entry("sales", parallelism=0, timezone="Mars")
    wrong["tasks"][0] |= {"retry": -1, "resource_gpu": "x"}
    answer = admin("POST", "/v1/flows", json=wrong)
    assert {*answer.json["errors"]} == {
        *("pipeline.parallelism", "pipeline.timezone", "tasks[0].retry", "tasks[0].resource_gpu")
    }


@pytest.mark.parametrize("name", ["import", "Export", "Check"])
def test_reserved_words_of_paths_are_no_names_of_flows(admin: Any, name: str) -> None:
    answer = admin("POST", "/v1/flows", json=entry(name))
    assert (answer.status_code, [*answer.json["errors"]]) == (400, ["pipeline.name"])


def test_a_list_of_flows_has_a_summary_of_each(admin: Any, bearer: Callable[..., Any]) -> None:
    scheduled = entry("b", "t", "u", schedule_type="crontab", cron_time="0 6 * * *", timezone="Asia/Shanghai")
    bearer(Privilege.WRITE_JOB, forwho="bob").payload("POST", "/v1/flows", json=scheduled)
    admin.payload("POST", "/v1/flows", json=entry("a", describe="first"))
    first, second = admin.payload("GET", "/v1/flows")
    assert (first["name"], first["describe"], first["creator"], first["schedule"]) == ("a", "first", "admin", None)
    assert (second["tasks"], second["schedule"], second["timezone"]) == (2, "0 6 * * *", "Asia/Shanghai")
    assert (second["creator"], second["paused"], second["nextAt"] is None) == ("bob", False, False)
    answer = admin("GET", "/v1/flows?pageSize=1&pageNumber=2")
    assert [flow["name"] for flow in answer.json["payload"]] == ["b"]
    assert answer.headers["X-Total-Count"] == "2"


def test_only_an_import_pauses_a_new_schedule(admin: Any) -> None:
    scheduled = entry("a", schedule_type="crontab", cron_time="@daily")
    admin.payload("POST", "/v1/flows/import", json={"a": scheduled})
    admin.payload("POST", "/v1/flows", json=scheduled | {"pipeline": {**scheduled["pipeline"], "name": "b"}})
    assert [flow["paused"] for flow in admin.payload("GET", "/v1/flows")] == [True, False]


def test_the_creator_stays_when_another_replaces_the_flow(admin: Any, bearer: Callable[..., Any]) -> None:
    bearer(Privilege.WRITE_JOB, forwho="ada").payload("POST", "/v1/flows", json=entry("a"))
    bearer(Privilege.WRITE_JOB, forwho="bob").payload("PUT", "/v1/flows/a", json=entry("a", "b"))
    admin.payload("POST", "/v1/flows/import", json={"a": entry("a"), "c": entry("c")})
    assert [flow["creator"] for flow in admin.payload("GET", "/v1/flows")] == ["ada", "admin"]


def test_a_creator_who_can_have_no_directory_mounts_none(bearer: Callable[..., Any]) -> None:
    client = bearer(Privilege.WRITE_JOB, forwho="ada lovelace")
    client.payload("POST", "/v1/flows", json=entry("a"))
    mounting = entry("b")
    mounting["tasks"][0]["volume_mount"] = "home(pvc):/mnt"
    answer = client("POST", "/v1/flows", json=mounting)
    assert (answer.status_code, [*answer.json["errors"]]) == (400, ["tasks[0].volume_mount"])
    assert "ada lovelace" in answer.json["msg"]


def test_a_token_that_sees_only_its_own_finds_no_other_s_flow(admin: Any, bearer: Callable[..., Any]) -> None:
    admin.payload("POST", "/v1/flows", json=entry("theirs"))
    own = bearer(Privilege.READ_JOB, Privilege.WRITE_JOB, forwho="ada", own_only=True)
    own.payload("POST", "/v1/flows", json=entry("mine"))
    assert flows(own) == [*own.payload("GET", "/v1/flows/export")] == ["mine"]
    for method, path in [
        ("GET", "/v1/flows/theirs"),
        ("GET", "/v1/flows/export?names=theirs"),
        ("GET", "/v1/flows/theirs/runs"),
        ("DELETE", "/v1/flows/theirs"),
        ("POST", "/v1/flows/theirs/run"),
        ("POST", "/v1/flows/theirs/tasks/a/run"),
    ]:
        assert own(method, path).status_code == 404, path
    assert own("PUT", "/v1/flows/theirs", json=entry("theirs")).status_code == 404
    document = {"theirs": entry("theirs", "b"), "new": entry("new")}
    assert own("POST", "/v1/flows/import", **sent(document)).status_code == 403
    assert flows(admin) == ["mine", "theirs"]


def test_of_two_importers_one_comes_after_the_other(app: Flask, admin: Any) -> None:
    documents = [{name: entry(name, task) for name in ("a", "b", "c")} for task in ("first", "second")]

    def run(document: dict[str, Any]) -> int:
        client = app.test_client()
        return client.post("/v1/flows/import", json=document, headers={"token": "admin"}).status_code

    with ThreadPoolExecutor(8) as pool:
        assert {*pool.map(run, documents * 4)} == {200}
    exported = admin.payload("GET", "/v1/flows/export")
    assert exported in documents
    with ThreadPoolExecutor(4) as pool:
        created = pool.map(
            lambda _: app.test_client().post("/v1/flows", json=entry("new"), headers={"token": "admin"}).status_code,
            range(4),
        )
    assert sorted(created) == [200, 409, 409, 409]


def test_changes_of_flows_are_in_the_audit_log(admin: Any) -> None:
    admin.payload("POST", "/v1/flows", json=entry("a"))
    admin.payload("PUT", "/v1/flows/a", json=entry("a", "b", "c"))
    admin.payload("DELETE", "/v1/flows/a")
    admin.payload("POST", "/v1/templates", json=template("t"))
    admin.payload("DELETE", "/v1/templates/t")
    entries = admin.payload("GET", "/v1/audit")[::-1]
    assert [(one["action"], one["target"]) for one in entries] == [
        ("flow.create", "a"),
        ("flow.replace", "a"),
        ("flow.delete", "a"),
        ("template.import", "t"),
        ("template.delete", "t"),
    ]
    assert (entries[1]["before"]["tasks"], entries[1]["after"]["tasks"]) == (1, 2)


def test_templates_are_imported_all_or_none(admin: Any) -> None:
    bad = {**template("good"), **template("bad", job_template_env="1"), **template("worse", odd=1)}
    answer = admin("POST", "/v1/templates", **sent(bad))
    assert (answer.status_code, {*answer.json["errors"]}) == (400, {"bad.job_template_env", "worse.odd"})
    assert "good" not in admin.payload("GET", "/v1/templates")
    assert admin.payload("POST", "/v1/templates", json=template("good")) == {"templates": ["good"]}
    assert admin.payload("GET", "/v1/templates/good") == template("good")["good"]
    assert admin("GET", "/v1/templates/bad").status_code == 404


def revisions() -> list[tuple[str, int, bool]]:
    with transaction() as session:
        query = select(TemplateRevision).order_by(TemplateRevision.name, TemplateRevision.revision)
        return [(row.name, row.revision, row.document is not None) for row in session.scalars(query)]


def test_a_template_has_a_revision_for_each_change(admin: Any) -> None:
    args = {"g": {"-a": {"type": "str"}, "-b": {"type": "str"}}}
    turned = {"g": dict(reversed(args["g"].items()))}
    for document in (template("t"), template("t"), template("t", job_template_args=args)):
        admin.payload("POST", "/v1/templates", **sent(document))
    assert revisions() == [("t", 1, True), ("t", 2, True)]
    # Arguments in another order are another command line.
    admin.payload("POST", "/v1/templates", **sent(template("t", job_template_args=turned)))
    admin.payload("DELETE", "/v1/templates/t")
    assert revisions() == [("t", 1, True), ("t", 2, True), ("t", 3, True), ("t", 4, False)]
    assert admin("DELETE", "/v1/templates/t").status_code == 404
    admin.payload("POST", "/v1/templates", json=template("t"))
    assert revisions()[-1] == ("t", 5, True)


def test_a_template_that_a_flow_uses_is_not_deleted(admin: Any) -> None:
    admin.payload("POST", "/v1/templates", json=template("t"))
    using = entry("a")
    using["tasks"][0]["job_templete"] = "t"
    admin.payload("POST", "/v1/flows", **sent(using))
    answer = admin("DELETE", "/v1/templates/t")
    assert (answer.status_code, answer.json["code"]) == (409, "UNSUPPORTED_OPERATION")
    assert answer.json["msg"] == 'The template "t" is used by a.'
    admin.payload("DELETE", "/v1/flows/a")
    admin.payload("DELETE", "/v1/templates/t")
    assert admin("POST", "/v1/flows", **sent(using)).status_code == 400


def test_a_built_in_template_takes_an_image_and_goes_back_to_what_it_was(admin: Any) -> None:
    before = admin.payload("GET", "/v1/templates/customize")
    assert admin("DELETE", "/v1/templates/customize").status_code == 409
    other = template("自定义镜像", image_name="ubuntu:20.04", job_template_command="rm -rf /")
    assert admin.payload("POST", "/v1/templates", **sent(other)) == {"templates": ["自定义镜像"]}
    shown = admin.payload("GET", "/v1/templates/customize")
    assert shown["image_name"] == "ubuntu:20.04"
    assert admin.payload("GET", "/v1/templates/自定义镜像") == shown
    admin.payload("DELETE", "/v1/templates/自定义镜像")
    assert admin.payload("GET", "/v1/templates/customize") == before


def test_all_templates_can_be_imported_as_they_are_shown(admin: Any) -> None:
    shown = admin.payload("GET", "/v1/templates")
    assert {"customize", "logical", "python", "mpijob"} <= {*shown}
    assert admin.payload("POST", "/v1/templates", **sent(shown)) == {"templates": [*shown]}


def test_a_flow_that_was_stored_is_the_document_that_was_sent(admin: Any) -> None:
    given = entry("a", expand=[{"x": 1.5, "y": None}], parameter={"é": "ü"})
    admin.payload("POST", "/v1/flows/import", **sent({"A": given}))
    with transaction() as session:
        row = session.scalars(select(FlowRow)).one()
    assert (row.key, row.document_key, row.entry, row.id[0]) == ("a", "A", given, "f")


def test_an_own_only_token_changes_no_template_of_somebody_else(admin: Any, bearer: Callable[..., Any]) -> None:
    own = bearer(Privilege.WRITE_FEATURE, forwho="ada", own_only=True)
    admin.payload("POST", "/v1/templates", json=template("theirs"))
    for name in ("theirs", "python"):
        answer = own("POST", "/v1/templates", json={**template("mine"), **template(name, job_template_env="A=1")})
        assert (answer.status_code, name in answer.json["msg"]) == (403, True)
        assert own("DELETE", f"/v1/templates/{name}").status_code == 403
    own.payload("POST", "/v1/templates", json=template("mine"))
    own.payload("POST", "/v1/templates", json=template("mine", job_template_env="A=1"))
    own.payload("DELETE", "/v1/templates/mine")


def test_a_flow_is_read_before_the_lock_that_others_wait_for(admin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    read = threading.Event()

    def reading(*arguments: Any) -> Any:
        try:
            return read_entry(*arguments)
        finally:
            read.set()

    monkeypatch.setattr(documents, "read_entry", reading)
    with ThreadPoolExecutor(1) as pool:
        with transaction() as session:
            lookup.lock_definitions(session)
            posted = pool.submit(admin.payload, "POST", "/v1/flows", json=entry("slow"))
            assert read.wait(HANG_SECONDS)
        posted.result()


def test_a_flow_is_read_again_if_a_template_has_changed_meanwhile(admin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    count = 0

    def reading(*arguments: Any) -> Any:
        nonlocal count
        count += 1
        found = read_entry(*arguments)
        if count == 1:
            with transaction() as session:
                template_store.import_templates(session, template("t"), SYSTEM)
        return found

    monkeypatch.setattr(documents, "read_entry", reading)
    admin.payload("POST", "/v1/flows", json=entry("twice"))
    assert count == 2
