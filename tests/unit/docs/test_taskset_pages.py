from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pipeline_core.states import ReplicaState
from pipeline_core.taskset.additive import BINDER_MAY_SET, COMMANDS, FROZEN, LOCKED
from pipeline_core.taskset.command import growth
from pipeline_core.taskset.document import Role, RoleAction, RoleEvent
from pipeline_core.taskset.rollup import role_state
from pipeline_core.taskset.schema import check, schema
from pipeline_core.taskset.values import MERGE_KEYS

DOCS = Path(__file__).parents[3] / "docs"
ADDITIVE = (DOCS / "additive.md").read_text()
TASKSET = (DOCS / "taskset.md").read_text()


def rows(text: str, heading: str) -> list[list[str]]:
    """The cells of the table that begins with the line `heading`."""
    lines = text.partition(heading)[2].splitlines()[2:]
    table = lines[: next(i for i, line in enumerate(lines) if not line.startswith("|"))]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


@pytest.mark.parametrize("pattern", sorted(LOCKED | FROZEN | COMMANDS | BINDER_MAY_SET), ids=".".join)
def test_every_forbidden_or_allowed_field_is_documented(pattern: tuple[str, ...]) -> None:
    name = pattern[-1] if pattern[-1] != "*" else pattern[-2]
    assert re.search(rf"`{name}`|{name} and|and {name}", ADDITIVE)


@pytest.mark.parametrize("name", MERGE_KEYS)
def test_every_merge_key_is_documented(name: str) -> None:
    (row,) = [cells for cells in rows(ADDITIVE, "| list | identified by |") if f"`{name}`" in cells[0]]
    assert [key for key in MERGE_KEYS[name] if f"`{key}`" in row[1]] == list(MERGE_KEYS[name])


@pytest.mark.parametrize("row", rows(ADDITIVE, "| before | after | |"), ids=" ".join)
def test_the_examples_of_commands_are_true(row: list[str]) -> None:
    before, after = (json.loads(cell.strip("`")) for cell in row[:2])
    assert (growth(before, after) is not None) == (row[2] == "accepted")


@pytest.mark.parametrize("row", rows(TASKSET, "| replicas | minSucceeded | maxFailed | states | role |"), ids=" ".join)
def test_the_examples_of_the_roll_up_are_true(row: list[str]) -> None:
    replicas, minimum, maximum, states, state = row
    role = Role("r", int(replicas), int(minimum or replicas), int(maximum or 1))
    assert role_state(role, [ReplicaState(word) for word in states.split()]) == state


def test_the_example_of_a_taskset_is_one() -> None:
    check(json.loads(TASKSET.partition("```json")[2].partition("```")[0]))


def test_every_field_event_and_action_is_documented() -> None:
    spec = [f"spec.{name}" for name in schema()["properties"]["spec"]["properties"] if name != "roles"]
    roles = [f"spec.roles[].{name}" for name in schema()["$defs"]["role"]["properties"]]
    assert [name for name in (*spec, *roles, *RoleEvent, *RoleAction) if f"`{name}`" not in TASKSET] == []
