from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path

import pytest

from pipeline_core.errors import PipelineError
from pipeline_core.flows.definition.catalogue import BUILT_IN, Catalogue
from pipeline_core.flows.definition.documents import read_document
from pipeline_core.flows.definition.flow import ALERT_STATES, parse
from pipeline_core.flows.definition.templates import ALIASES, read_templates
from pipeline_core.flows.notation import variables
from pipeline_core.flows.notation.arguments import TYPES, read_arguments
from pipeline_core.flows.notation.cron import NICKNAMES, Schedule, read_instant
from pipeline_core.flows.notation.environment import RESERVED, SERVICE_VARIABLES
from pipeline_core.flows.notation.errors import NotationError
from pipeline_core.flows.notation.gpu import read_gpu
from pipeline_core.flows.notation.mounts import VOLUME_KINDS
from pipeline_core.flows.notation.variables import ATTRIBUTES
from pipeline_core.flows.states import RunState, TaskState
from pipeline_core.taskset import results
from pipeline_core.validation.errors import ValidationErrors
from pipeline_core.validation.fields import FieldReader
from tests.unit.flows.flow_cases import site

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "flows-reference.md").read_text()
TEMPLATES = (DOCS / "templates.md").read_text()


def rows(heading: str) -> list[list[str]]:
    """The cells of the table that begins with the line `heading`, in either page."""
    lines = (PAGE + TEMPLATES).partition(heading)[2].splitlines()[2:]
    table = lines[: next((i for i, line in enumerate(lines) if not line.startswith("|")), None)]
    return [[cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip()[1:-1])] for line in table]


def names(heading: str) -> list[str]:
    """What stands in code in the first column of a table."""
    return [name for row in rows(heading) for name in re.findall("`([^`]+)`", row[0])]


def known(errors: Iterable[str]) -> set[str]:
    """The fields that an error about an unknown one lists."""
    (text,) = [text for text in errors if "is no field here" in text]
    return set(text.rpartition("there are ")[2].split(", "))


def test_the_example_can_be_imported() -> None:
    document = json.loads(PAGE.partition("```json")[2].partition("```")[0])
    assert [*read_document(document, Catalogue(), site())["sales"].flow.dag] == ["load", "report"]


def test_every_field_of_a_flow_and_of_its_tasks_is_documented() -> None:
    problems = ValidationErrors()
    parse({"pipeline": {"name": "f", "?": 1}, "tasks": [{"name": "a", "job_templete": "t", "?": 1}]}, problems, "")
    with pytest.raises(PipelineError) as caught:
        problems.raise_any()
    assert set(names("| field of `pipeline` | default | meaning |")) == known(caught.value.errors['pipeline["?"]'])
    assert {*names("| field of a task | default | meaning |"), "job_template"} == known(
        caught.value.errors['tasks[0]["?"]']
    )


def test_every_field_of_a_template_is_documented() -> None:
    with pytest.raises(PipelineError) as caught:
        read_templates({"t": {"job_template_name": "t", "image_name": "i", "?": 1}}, site())
    assert set(names("| field of a template | default | meaning |")) == known(caught.value.errors['t["?"]'])


def test_every_field_and_type_of_an_argument_is_documented() -> None:
    problems = ValidationErrors()
    read_arguments({"g": {"-a": {"?": 1}}}, problems, "args")
    with pytest.raises(PipelineError) as caught:
        problems.raise_any()
    assert set(names("| field of an argument | default | meaning |")) == known(caught.value.errors['args.g.-a["?"]'])
    assert set(names("| type | what may be given |")) == set(TYPES)


@pytest.mark.parametrize(
    "row", rows("| `resource_gpu` | cards | share | shared | vendor | node selector |"), ids=lambda row: row[0]
)
def test_the_examples_of_gpus_are_true(row: list[str]) -> None:
    text, count, share, shared, vendor, selector = row
    if count == "refused":
        with pytest.raises(NotationError):
            read_gpu(text.strip("`"), site())
        return
    gpu = read_gpu(text.strip("`"), site())
    wanted = ",".join(f"{key}={value}" for key, value in gpu.node_selector.items())
    assert [str(gpu.count), str(gpu.share or ""), "yes" if gpu.shared else "", gpu.vendor, wanted] == [
        *(count, share, shared, vendor, selector)
    ]


def test_every_kind_of_mount_and_built_in_template_is_documented() -> None:
    assert names("| kind | name | what it is |") == list(VOLUME_KINDS)
    assert set(names("| built in | what it does |")) >= {*BUILT_IN, *ALIASES}


def test_every_variable_that_tasks_are_told_is_documented() -> None:
    assert set(names("| variable | what it is |")) == set(SERVICE_VARIABLES)
    reserved = PAGE.partition("These names, all others")[2].partition("cannot be set")[0]
    assert all(RESERVED.fullmatch(name + "X") or RESERVED.fullmatch(name) for name in re.findall("`([^`]+)`", reserved))


def test_every_name_filter_and_attribute_is_documented() -> None:
    section = PAGE.partition("## Variables")[2].partition("## Schedule")[0]
    assert [name for name in (*variables.NAMES, *variables.FILTERS) if f"`{name}`" not in section] == []
    assert [name for name in ATTRIBUTES if name not in section] == []
    assert f"{variables.MAX_TEXT // 1024} KiB before and {variables.MAX_RENDERED // 1024} KiB after" in section
    assert f"at most {results.MAX_OUTPUT} bytes" in section


@pytest.mark.parametrize("row", rows("| text | becomes |"), ids=lambda row: row[0])
def test_the_examples_of_variables_are_true(row: list[str]) -> None:
    text, becomes = (cell.strip("`") for cell in row)
    values = variables.builtin_values(
        creator="ann",
        runner="bob",
        pipeline_id="1",
        pipeline_name="sales",
        cluster_name="local",
        execution_date="2026-03-01 06:00:00",
    )
    assert variables.render(text, values) == becomes


@pytest.mark.parametrize("row", rows("| `cron_time` | `timezone` | on | due at (UTC) |"), ids=" ".join)
def test_the_examples_of_schedules_are_true(row: list[str]) -> None:
    cron, zone, day, due = row
    start = read_instant(f"{day} 00:00:00", zone)
    points = Schedule(cron.strip("`"), zone).between(start, start + timedelta(hours=22))
    assert [f"{point:%H:%M}" for point in points] == due.split()


def test_every_nickname_state_and_alert_is_documented() -> None:
    assert [name for name in NICKNAMES if f"`{name}`" not in PAGE] == []
    assert names("| a run is | when |") == list(RunState)
    assert names("| a task is | when |") == list(TaskState)
    section = PAGE.partition("## States")[2].partition("| a task is")[0]
    assert [name for name in ALERT_STATES if f"`{name}`" not in section] == []


def test_every_type_of_metric_is_documented_with_its_fields() -> None:
    table = {row[0].strip("`"): tuple(re.findall("`([^`]+)`", row[1])) for row in rows("| `metric_type` | field |")}
    assert table == results.METRICS


def test_bodies_list_the_fields_that_they_know() -> None:
    """What these tests read the lists of fields from."""
    fields = FieldReader({"?": 1}, ValidationErrors())
    fields.text("a")
    with pytest.raises(PipelineError) as caught:
        fields.finish()
    assert known(caught.value.errors['["?"]']) == {"a"}
