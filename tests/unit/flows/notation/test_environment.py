from __future__ import annotations

import re

import pytest

from pipeline_core.flows.notation.environment import RESERVED, SERVICE_VARIABLES, TaskContext, compose, read_lines
from pipeline_core.flows.notation.errors import NotationError

CONTEXT = TaskContext(
    run_id="r1",
    flow_id="7",
    flow_name="sales",
    creator="ann",
    runner="bob",
    project="public",
    task_id="r1/a",
    task_name="a",
    image="busybox",
    gpu="1(V100)",
    gpu_resource="nvidia.com/gpu",
)


def test_each_line_is_split_at_its_first_equals_sign() -> None:
    text = "AA=aa\n\n  \nOPTS=--conf a=b\r\nEMPTY=\n X =  y "
    assert read_lines(text) == {"AA": "aa", "OPTS": "--conf a=b", "EMPTY": "", "X": "  y "}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A=1\nB", 'line 2, "B", has no `=`'),
        ("1A=1", "no name"),
        ("A B=1", "no name"),
        ("=1", "no name"),
        ("A=1\nA=2", "A twice"),
        ("KFJ_RUN_ID=x", "KFJ_RUN_ID, which the service sets itself"),
        ("PORT1=1", "sets itself"),
        ("TASKROLE_X=1", "sets itself"),
    ],
)
def test_lines_that_are_no_environment_are_refused(text: str, words: str) -> None:
    with pytest.raises(NotationError, match=re.escape(words)):
        read_lines(text)


@pytest.mark.parametrize("name", [*SERVICE_VARIABLES, "PORT12", "TASKSET_NAME", "KFJ_"])
def test_whatever_the_service_sets_is_reserved(name: str) -> None:
    assert RESERVED.fullmatch(name)


@pytest.mark.parametrize("name", ["PORT", "PORTS1", "MY_KFJ_X", "USERNAME2", "TASK_RESOURCE_CPU"])
def test_other_names_are_free(name: str) -> None:
    assert not RESERVED.fullmatch(name)


def test_later_environments_win() -> None:
    variables = compose(
        CONTEXT,
        (40001, 40002),
        template={"A": "template", "B": "template", "C": "template"},
        flow={"B": "flow", "C": "flow"},
        task={"C": "task"},
    )
    assert [variables[name] for name in "ABC"] == ["template", "flow", "task"]
    assert [variables["PORT1"], variables["PORT2"]] == ["40001", "40002"]
    assert [variables["USERNAME"], variables["KFJ_CREATOR"], variables["KFJ_RUNNER"]] == ["ann", "ann", "bob"]
    assert variables["KFJ_TASK_RESOURCE_GPU"] == "1(V100)"
    assert variables["RDMA_RESOURCE_NAME"] == ""
