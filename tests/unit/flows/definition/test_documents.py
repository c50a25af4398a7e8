from __future__ import annotations

import copy
import json
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_core.errors import MissingParameter, PipelineError, WrongParameter
from pipeline_core.flows.definition.catalogue import Catalogue
from pipeline_core.flows.definition.documents import read_document, read_entry
from pipeline_core.flows.definition.flow import Flow, dump_document, parse_stored
from pipeline_core.flows.definition.templates import read_templates
from pipeline_core.flows.notation.site import Site
from pipeline_core.flows.states import RunState
from tests.unit.flows.flow_cases import CASES, case, site

CATALOGUE = Catalogue(read_templates(case("support-job-templates.json"), site()).values())
FILES = sorted(path.name for path in CASES.glob("case*.json"))


def entry(pipeline: dict[str, Any] | None = None, *tasks: dict[str, Any]) -> dict[str, Any]:
    """A flow of these tasks, each a shell script unless it says otherwise."""
    script = {"job_templete": "customize", "args": {"images": "busybox", "command": "true"}}
    return {
        "pipeline": {"name": "f", **(pipeline or {})},
        "tasks": [{**script, **task} for task in tasks or ({"name": "a"},)],
    }


def read(site: Site, pipeline: dict[str, Any] | None = None, *tasks: dict[str, Any]) -> Flow:
    return read_entry(entry(pipeline, *tasks), CATALOGUE, site).flow


def errors(site: Site, pipeline: dict[str, Any] | None = None, *tasks: dict[str, Any]) -> dict[str, list[str]]:
    with pytest.raises(PipelineError) as caught:
        read(site, pipeline, *tasks)
    return caught.value.errors


@pytest.mark.parametrize("name", FILES)
def test_documents_that_are_exported_are_the_same_bytes_as_they_came(name: str, site: Site) -> None:
    text = (CASES / name).read_text()
    for _ in range(2):
        definitions = read_document(json.loads(text), CATALOGUE, site)
        exported = dump_document({each.key: each.entry for each in definitions.values()})
        assert exported == text
        text = exported


def test_the_fields_of_a_document_are_read(site: Site) -> None:
    definitions = read_document(case("case2-diamond-scheduled-two-pipelines.json"), CATALOGUE, site)
    flow = definitions["ctr-backfill"].flow
    assert flow.schedule is not None
    assert (flow.schedule.cron, flow.timezone) == ("0 */6 * * *", "UTC")
    assert f"{flow.backfill_start}" == "2026-03-01 00:00:00+00:00"
    assert (flow.depends_on_past, flow.parallelism, flow.max_active_runs) == (True, 2, 1)
    assert flow.alert_states == {RunState.FAILED, RunState.SUCCEEDED}
    assert flow.alert_users == ("li-lei", "han-meimei")
    assert next(iter(flow.tasks)) == next(iter(flow.dag)) == "pick-window"
    assert (flow.tasks["feature-user"].retry, flow.tasks["join-train"].timeout) == (2, 3600)
    assert flow.tasks["publish-report"].skip


def test_defaults_are_filled_in(site: Site) -> None:
    flow = read(site)
    assert (flow.parallelism, flow.max_active_runs, flow.max_manual_runs, flow.expired_limit) == (10, 1, 10, 0)
    assert (flow.depends_on_past, flow.catchup, flow.fail_fast, flow.schedule) == (False, True, True, None)
    assert (flow.tasks["a"].retry, flow.tasks["a"].timeout, flow.tasks["a"].skip) == (0, 0, False)


def test_a_whole_number_is_one_however_it_is_written(site: Site) -> None:
    flow = read(
        site, {"parallelism": 3.0, "catchup": 0.0, "expired_limit": " 7 "}, {"name": "a", "retry": "2", "skip": 1}
    )
    assert (flow.parallelism, flow.catchup, flow.expired_limit) == (3, False, 7)
    assert (flow.tasks["a"].retry, flow.tasks["a"].skip) == (2, True)


NEGATIVE = {row["id"]: row for row in case("negative-cases.json")}
WORDS = {
    "cycle": "a -> b -> a",
    "self-loop": "a -> a",
    "unknown-upstream": '"ghost" upstream of "a"',
    "dag-node-without-task": '"b"',
    "duplicate-task-name": '"a"',
    "duplicate-after-normalising": '"a-b", the same as "a_b"',
    "unknown-template": '"no-such"',
    "unknown-project": '"nope"',
    "missing-required-arg": "args.-f: (task a) is required",
    "enum-out-of-choice": "args.--framework",
    "int-out-of-range": "[0, 366)",
    "bad-gpu": "neg.tasks[0].resource_gpu: (task a)",
    "gpu-nan": "resource_gpu: (task a)",
    "gpu-one-and-a-half": "resource_gpu: (task a)",
    "inverted-range": "more than its limit",
    "template-rce-module": '"read"',
    "template-rce-dunder": '"read"',
    "template-dos": "`*` may not be used",
    "undefined-variable": '"YYYMMDD" is not defined',
    "output-of-non-ancestor": "b does not depend on a",
    "global-env-overrides-system": "KFJ_RUN_ID",
    "bad-cron": "99 99",
    "cron-never-fires": "0 0 31 2 *",
    "relative-mount": "absolute",
    "mount-dotdot": "`..`",
    "unknown-volume-kind": "floppy",
    "hostpath-not-allowed": "may not be mounted",
    "not-an-object": "must be an object",
}


@pytest.mark.parametrize("name", NEGATIVE)
def test_documents_that_cannot_run_are_refused_with_the_reason(name: str, site: Site) -> None:
    with pytest.raises(PipelineError) as caught:
        read_document(NEGATIVE[name]["document"], CATALOGUE, site)
    assert WORDS[name] in caught.value.message.replace("b -> a -> b", "a -> b -> a")


def test_every_document_to_be_refused_has_its_reason() -> None:
    assert NEGATIVE.keys() == WORDS.keys()


def test_all_validation_errors_are_reported_with_paths_and_nothing_is_imported(site: Site) -> None:
    raw = {
        "good": entry({"name": "good"}),
        "bad": entry(
            {"name": "worse", "odd": 1, "parallelism": 0, "cron_time": "* *"},
            {"name": "a", "retry": "x", "resource_cpu": "2~"},
            {"name": "1", "job_templete": ""},
        ),
        "other": entry({"name": "other", "global_env": "A"}),
        "third": entry({"name": "third"}, {"name": "a", "resource_gpu": "x", "args": {"images": "b", "x": 1}}),
        "GOOD": entry({"name": "Good"}),
        "name": entry({"name": "another"}),
        "list": [],
    }
    with pytest.raises(PipelineError) as caught:
        read_document(raw, CATALOGUE, site)
    assert set(caught.value.errors) == {
        *("bad.pipeline.odd", "bad.pipeline.parallelism", "bad.pipeline.cron_time", "bad.tasks[0].retry"),
        *("bad.tasks[1].name", "bad.tasks[1].job_templete", "other.pipeline.global_env", "third.tasks[0].resource_gpu"),
        *(
            "third.tasks[0].args.x",
            "bad.tasks[0].resource_cpu",
            "bad.pipeline.name",
            "GOOD",
            "name.pipeline.name",
            "list",
        ),
    }


@pytest.mark.parametrize(
    ("pipeline", "task", "path"),
    [
        ({"name": ""}, {}, "pipeline.name"),
        ({"name": "1x"}, {}, "pipeline.name"),
        ({"dag_json": []}, {}, "pipeline.dag_json"),
        ({"dag_json": {"a": {"upstream": "a"}}}, {}, "pipeline.dag_json.a.upstream"),
        ({"dag_json": {"a": {"down": []}}}, {}, "pipeline.dag_json.a"),
        ({"dag_json": {"a": {}, "A": {}}}, {}, "pipeline.dag_json.A"),
        ({"timezone": "Mars"}, {}, "pipeline.timezone"),
        ({"schedule_type": "daily"}, {}, "pipeline.schedule_type"),
        ({"schedule_type": "crontab"}, {}, "pipeline.cron_time"),
        ({"cronjob_start_time": "soon"}, {}, "pipeline.cronjob_start_time"),
        ({"alert_status": "Failed,Unknown"}, {}, "pipeline.alert_status"),
        ({"catchup": "perhaps"}, {}, "pipeline.catchup"),
        ({"max_active_runs": 1.5}, {}, "pipeline.max_active_runs"),
        ({"global_env": "creator=me"}, {}, "pipeline.global_env"),
        ({"global_env": "A={{ nobody }}"}, {}, "pipeline.global_env"),
        ({"global_env": "A={{ a.output }}"}, {}, "pipeline.global_env"),
        ({}, {"timeout": -1}, "tasks[0].timeout"),
        ({}, {"skip": 3}, "tasks[0].skip"),
        ({}, {"args": []}, "tasks[0].args"),
        ({}, {"env": "PORT1=1"}, "tasks[0].env"),
        ({}, {"env": "A={{ nobody }}"}, "tasks[0].env"),
        ({}, {"command": "{{ nobody }}"}, "tasks[0].command"),
        ({}, {"working_dir": "{{ nobody }}"}, "tasks[0].working_dir"),
        ({}, {"volume_mount": "{{ nobody }}"}, "tasks[0].volume_mount"),
        ({}, {"resource_rdma": "x"}, "tasks[0].resource_rdma"),
        ({}, {"resource_memory": "x"}, "tasks[0].resource_memory"),
        ({}, {"node_selector": "x"}, "tasks[0].node_selector"),
        ({}, {"node_selector": "gpu-type=T4", "resource_gpu": "1(V100)"}, "tasks[0].node_selector"),
        ({}, {"job_template": "customize"}, "tasks[0].job_templete"),
        ({}, {"odd": 1}, "tasks[0].odd"),
        ({}, {"args": {"images": "b", "command": "{{ ghost.output }}"}}, "tasks[0].args.command"),
    ],
)
def test_each_wrong_field_is_reported_by_its_path(
    pipeline: dict[str, Any], task: dict[str, Any], path: str, site: Site
) -> None:
    assert list(errors(site, pipeline, {"name": "a", **task})) == [path]


def test_an_undefined_name_is_reported_although_an_output_is_unknown(site: Site) -> None:
    dag = {"dag_json": {"b": {"upstream": ["a"]}}}
    second = {"name": "b", "args": {"images": "{{a.output}}", "command": "{{a.output}} {{nobody}}"}}
    assert list(errors(site, dag, {"name": "a"}, second)) == ["tasks[1].args.command"]


def test_a_field_that_reads_an_output_is_checked_once_the_output_is_known(site: Site) -> None:
    dag = {"dag_json": {"b": {"upstream": ["a"]}}}
    args = {"--days": "{{a.output}}", "--users": "{{ a.output }}"}
    read(
        site,
        dag,
        {"name": "a"},
        {"name": "b", "job_templete": "python-task", "args": args, "volume_mount": "{{a.output}}"},
    )


def test_names_agree_in_lower_case_with_hyphens(site: Site) -> None:
    dag = {"dag_json": {"LOAD_all": {}, "Then": {"upstream": ["load-All"]}}}
    flow = read(site, dag, {"name": "load_ALL"}, {"name": "then", "command": "{{Load_All.output}}"})
    assert flow.dag.upstream == {"load-all": (), "then": ("load-all",)}


def test_both_spellings_of_the_templates_key_are_read_and_the_first_is_written(site: Site) -> None:
    raw = {"pipeline": {"name": "f"}, "tasks": [{"name": "a", "job_template": "logical", "label": "x"}]}
    definition = read_entry(raw, CATALOGUE, site)
    assert list(definition.entry["tasks"][0].items()) == [("name", "a"), ("job_templete", "logical"), ("label", "x")]
    assert parse_stored(definition.entry) == definition.flow


def test_a_flow_that_was_stored_is_read_though_its_template_is_gone() -> None:
    assert parse_stored(entry(None, {"name": "a", "job_templete": "gone"})).tasks["a"].template == "gone"


def test_an_absent_name_is_missing(site: Site) -> None:
    with pytest.raises(MissingParameter):
        read(site, {"name": None})


def test_a_thousand_tasks_in_a_row_and_side_by_side_are_read(site: Site) -> None:
    names = [f"t{number}" for number in range(1000)]
    tasks = [{"name": name, "job_templete": "logical", "args": {}} for name in names]
    chain = {name: {"upstream": [before]} for before, name in pairwise(names)}
    assert [*read(site, {"dag_json": chain}, *tasks).dag] == names
    assert len(read(site, {}, *tasks).dag) == 1000


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=6), st.lists, max_leaves=3
)
PATHS = [("pipeline",), ("tasks",), ("tasks", 0)]
PATHS += [("pipeline", key) for key in case(FILES[1])["ctr-backfill"]["pipeline"]]
PATHS += [("tasks", 3, key) for key in case(FILES[1])["ctr-backfill"]["tasks"][3]]


@given(st.sampled_from(PATHS), ODD)
def test_any_value_of_a_field_is_parsed_or_refused(path: tuple[str | int, ...], value: Any) -> None:
    raw: Any = copy.deepcopy(case(FILES[1])["ctr-backfill"])
    *outer, last = path
    place = raw
    for key in outer:
        place = place[key]
    place[last] = value
    with suppress(PipelineError):
        read_entry(raw, CATALOGUE, Site())


def test_what_is_wrong_in_a_template_is_told_where_it_is_named(site: Site) -> None:
    raw = {"t": {"job_template_name": "t", "image_name": "b", "job_template_env": "A={{DAY}}"}}
    catalogue = Catalogue(read_templates(raw, site).values())
    flow = entry(None, {"name": "a", "job_templete": "t", "args": {}})
    with pytest.raises(PipelineError) as caught:
        read_entry(flow, catalogue, site)
    assert list(caught.value.errors) == ["tasks[0].job_templete"]
    flow["pipeline"]["global_env"] = "DAY=1"
    assert read_entry(flow, catalogue, site)


def test_a_flow_is_bounded_in_its_tasks_and_edges() -> None:
    def wrong(entry: dict[str, Any]) -> dict[str, list[str]]:
        with pytest.raises(WrongParameter) as caught:
            read_entry(entry, Catalogue(), Site())
        return dict(caught.value.errors)

    def entry(count: int, **pipeline: Any) -> dict[str, Any]:
        tasks = [{"name": f"n{number}", "job_templete": "logical"} for number in range(count)]
        return {"pipeline": {"name": "large", **pipeline}, "tasks": tasks}

    assert "5001 tasks" in wrong(entry(5001))["tasks"][0]
    before = [f"n{number}" for number in range(225)]
    dense = {f"n{number}": {"upstream": before[:number]} for number in range(400)}
    assert "more than 50000 names" in wrong(entry(400, dag_json=dense))["pipeline.dag_json"][0]


@pytest.mark.parametrize("field", [{"working_dir": "x"}, {"volume_mount": "data(pvc-share):/proc"}])
def test_an_invalid_working_directory_or_mount_path_is_refused(field: dict[str, str]) -> None:
    task = {"name": "a", "job_templete": "customize", "args": {"images": "i", "command": "c"}, **field}
    with pytest.raises(WrongParameter) as caught:
        read_entry({"pipeline": {"name": "f"}, "tasks": [task]}, Catalogue(), Site())
    assert list(caught.value.errors) == [f"tasks[0].{next(iter(field))}"]
