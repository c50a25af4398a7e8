from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from pipeline_core.errors import WrongParameter
from pipeline_core.flows.definition.catalogue import Catalogue
from pipeline_core.flows.definition.flow import Flow, parse_stored
from pipeline_core.flows.definition.preparation import check, global_env_values, prepare
from pipeline_core.flows.notation import variables
from pipeline_core.flows.notation.errors import NotationError
from pipeline_core.flows.notation.site import Site
from pipeline_core.validation.errors import ValidationErrors

BUILTIN = variables.builtin_values(
    creator="ann",
    runner="bob",
    pipeline_id="f1",
    pipeline_name="f",
    cluster_name="local",
    execution_date="2026-03-01 06:00:00",
)


def flow_of(*tasks: dict[str, Any], **pipeline: Any) -> Flow:
    """A flow of scripts, each after the one before it."""
    script = {"job_templete": "customize", "args": {"images": "busybox", "command": "true"}}
    entries = [{"name": name, **script, **task} for name, task in zip("abc", tasks, strict=False)]
    names = [entry["name"] for entry in entries]
    upstream = {name: {"upstream": [before]} for before, name in pairwise(names)}
    pipeline = {"name": "f", "dag_json": {names[0]: {}, **upstream}, **pipeline}
    return parse_stored({"pipeline": pipeline, "tasks": entries})


def test_values_of_global_env_are_rendered_once_and_may_be_given() -> None:
    flow = flow_of({}, global_env="A={{uuid.uuid4().hex}}\nB={{A}}-x")
    values = global_env_values(flow, BUILTIN)
    assert values["B"] == f"{values['A']}-x"
    assert global_env_values(flow, BUILTIN, {"A": "{{ nobody }}"}) == {"A": "{{ nobody }}", "B": "{{ nobody }}-x"}
    with pytest.raises(NotationError, match="no C; there are A, B"):
        global_env_values(flow, BUILTIN, {"C": "1"})


def test_values_that_grow_too_large_for_a_run_are_not_filled_in_to_the_end(
    monkeypatch: pytest.MonkeyPatch, fresh_runtime: Callable[[], None]
) -> None:
    text = "A=" + "x" * 60_000 + "\nB={{A}}{{A}}\nC={{B}}{{B}}\n" + "\n".join(f"K{n}={{{{C}}}}{n}" for n in range(300))
    with pytest.raises(NotationError, match=r"takes more than 67108864 bytes in a run, .*of its 1 tasks, once K138 is"):
        global_env_values(flow_of({}, global_env=text), BUILTIN)
    monkeypatch.setenv("PIPELINE_RUN_MAX_BYTES", "40")
    fresh_runtime()
    assert global_env_values(flow_of({}, global_env="A=" + "x" * 20), BUILTIN)
    for flow, given in (
        (flow_of({}, {}, global_env="A=" + "x" * 20), {}),
        (flow_of({}, global_env="A="), {"A": "x" * 21}),
    ):
        with pytest.raises(NotationError, match="PIPELINE_RUN_MAX_BYTES"):
            global_env_values(flow, BUILTIN, given)


def test_many_values_of_global_env_take_time_in_proportion() -> None:
    class Counted(dict[str, Any]):
        looked_at = 0

        def __iter__(self) -> Any:
            Counted.looked_at += 1
            return super().__iter__()

    builtin = Counted(BUILTIN)
    text = "A=1\n" + "\n".join(f"K{n}={{{{A~{n % 50}}}}}" for n in range(2_000))
    assert global_env_values(flow_of({}, global_env=text), builtin)["K1999"] == "149"
    assert Counted.looked_at < 10, "the names are not gone through for each line"
    with pytest.raises(NotationError, match=r"there are creator.*, A, K0.*…") as caught:
        global_env_values(flow_of({}, global_env=f"{text}\nZ={{{{nobody}}}}"), builtin)
    assert len(str(caught.value)) < 1_000


def prepared(flow: Flow, task: str, outputs: dict[str, str] | None = None) -> Any:
    template = Catalogue().find(flow.tasks[task].template)
    return prepare(flow.tasks[task], template, BUILTIN, outputs or {}, "ann", Site())


def test_a_prepared_task_has_its_texts_rendered_and_its_notation_read() -> None:
    flow = flow_of(
        {}, {"command": "echo {{a.output}} {{runner}}", "env": "DAY={{execution_date}}", "resource_cpu": "1~2"}
    )
    found = prepared(flow, "b", {"a": "7"})
    assert found.start.script == "echo 7 bob"
    assert found.env == {"DAY": "2026-03-01 06:00:00"}
    assert (found.cpu.request, found.cpu.limit, found.memory) == ("1", "2", None)


def test_every_field_that_cannot_be_prepared_is_named() -> None:
    flow = flow_of({}, {"command": "{{a.output}}", "env": "A={{a.output}}"})
    with pytest.raises(WrongParameter) as caught:
        prepared(flow, "b")
    assert {path: len(texts) for path, texts in caught.value.errors.items()} == {"command": 1, "env": 1}


def test_a_check_needs_no_outputs_but_knows_which_may_be_read() -> None:
    flow = flow_of({"command": "{{b.output}}"}, {"command": "{{a.output}}", "volume_mount": "{{a.output}}"})
    problems = ValidationErrors()
    for index, task in enumerate(flow.tasks.values()):
        check(flow, task, Catalogue().find(task.template), BUILTIN, "ann", Site(), problems, f"tasks[{index}]")
    assert problems.by_path == {"tasks[0].command": ["(task a) reads the output of b, but a does not depend on b"]}


def test_a_node_selector_must_agree_with_the_model_of_the_gpu() -> None:
    flow = flow_of({"node_selector": "zone=a", "resource_gpu": "1(V100)"})
    assert prepared(flow, "a").node_selector == {"zone": "a", "gpu-type": "V100"}
    with pytest.raises(WrongParameter, match="gpu-type=T4, and resource_gpu for V100"):
        prepared(flow_of({"node_selector": "gpu-type=T4", "resource_gpu": "1(V100)"}), "a")


def test_no_more_of_a_tasks_texts_is_filled_in_than_fits_into_its_taskset() -> None:
    big = "x" * 60_000
    lines = "\n".join(f"K{number}={{{{BIG}}}}" for number in range(100))
    flow = flow_of({"env": lines})
    with pytest.raises(WrongParameter, match="is longer than") as refused:
        prepare(flow.tasks["a"], Catalogue().find("customize"), {**BUILTIN, "BIG": big}, {}, "creator", Site())
    assert "env" in refused.value.errors
    fits = flow_of({"env": "\n".join(f"K{number}={{{{BIG}}}}" for number in range(15))})
    values = {**BUILTIN, "BIG": big}
    assert prepare(fits.tasks["a"], Catalogue().find("customize"), values, {}, "creator", Site()).env["K14"] == big
