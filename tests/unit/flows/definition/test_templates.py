from __future__ import annotations

from typing import Any

import pytest

from pipeline_core.errors import PipelineError
from pipeline_core.flows.definition import templates
from pipeline_core.flows.definition.catalogue import Catalogue
from pipeline_core.flows.definition.templates import (
    Behaviour,
    Start,
    Template,
    read_templates,
    start,
)
from pipeline_core.flows.notation.errors import NotationError
from pipeline_core.flows.notation.site import Site
from tests.unit.flows.flow_cases import case, site


def template(**fields: Any) -> dict[str, Any]:
    return {"t": {"job_template_name": "t", "image_name": "busybox", **fields}}


def test_the_templates_of_the_cases_are_read() -> None:
    templates = read_templates(case("support-job-templates.json"), site())
    hadoop, torch = templates["hadoop"], templates["pytorchjob"]
    assert hadoop.host_network
    assert hadoop.env == {"FS_DEFAULTFS": "hdfs://10.0.0.5:9000", "SPARK_OPTS": "--conf a=b"}
    assert templates["datax"].command == ("bash", "start.sh")
    assert (torch.behaviour, torch.command, torch.account) == (Behaviour.PYTORCHJOB, (), "")
    assert torch.env["TASK_RESOURCE_CPU"] == "2"
    assert list(templates["decision-tree"].arguments)[:3] == ["--train_dataset", "--label_columns", "--feature_columns"]


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"job_template_name": "other"}, "t.job_template_name"),
        ({"job_template_name": ""}, "t.job_template_name"),
        ({"job_template_name": "t\u202e"}, "t.job_template_name"),
        ({"nonsense": 1}, "t.nonsense"),
        ({"image_name": ""}, "t.image_name"),
        ({"job_template_command": "sh 'x"}, "t.job_template_command"),
        ({"job_template_env": "KFJ_RUN_ID=1"}, "t.job_template_env"),
        ({"job_template_expand": 1}, "t.job_template_expand"),
        ({"job_template_volume": "/etc(hostpath):/etc"}, "t.job_template_volume"),
        ({"job_template_args": []}, "t.job_template_args"),
        ({"job_template_args": {"g": []}}, "t.job_template_args.g"),
        ({"job_template_args": {"g": {"-a": []}}}, "t.job_template_args.g.-a"),
        ({"job_template_args": {"g": {"-a": {}}, "h": {"-a": {}}}}, "t.job_template_args.h.-a"),
        ({"job_template_args": {"g": {"-a": {"type": "nothing"}}}}, "t.job_template_args.g.-a.type"),
        ({"job_template_args": {"g": {"-a": {"range": "1"}}}}, "t.job_template_args.g.-a.range"),
        ({"job_template_args": {"g": {"-a": {"range": "a,b"}}}}, "t.job_template_args.g.-a.range"),
        ({"job_template_args": {"g": {"-a": {"regex": "("}}}}, "t.job_template_args.g.-a.regex"),
        ({"job_template_args": {"g": {"-a": {"require": 2}}}}, "t.job_template_args.g.-a.require"),
        ({"job_template_args": {"g": {"-a": {"choice": "x"}}}}, "t.job_template_args.g.-a.choice"),
        ({"job_template_args": {"g": {"-a": {"odd": 1}}}}, "t.job_template_args.g.-a.odd"),
        ({"job_template_args": {"g": {"-a": {"type": "int", "default": "x"}}}}, "t.job_template_args.g.-a.default"),
        (
            {"job_template_args": {"g": {"-a": {"sub_args": {"b": {"type": 1}}}}}},
            "t.job_template_args.g.-a.sub_args.b.type",
        ),
    ],
)
def test_a_wrong_template_is_refused_with_the_path_of_what_is_wrong(fields: dict[str, Any], path: str) -> None:
    with pytest.raises(PipelineError) as caught:
        read_templates(template(**fields), site())
    assert list(caught.value.errors) == [path]


def test_templates_come_all_or_none_with_everything_that_is_wrong() -> None:
    with pytest.raises(PipelineError) as caught:
        read_templates(
            {"a": 1, **template(image_name=""), "customize": {"job_template_name": "customize"}, "自定义镜像": {}},
            site(),
        )
    assert {path.split(".")[0] for path in caught.value.errors} == {"a", "t", "自定义镜像", "customize"}
    for nothing in ({}, [], None):
        with pytest.raises(PipelineError):
            read_templates(nothing, site())


def test_a_document_of_a_built_in_template_changes_image_args_and_env_only() -> None:
    document = {
        "job_template_name": "tfjob",
        "image_name": "mine",
        "job_template_command": "rm -rf",
        "job_template_account": "root",
        "job_template_privileged": True,
        "job_template_volume": "x(pvc-share):/x",
        "job_template_env": "A=1",
    }
    read = read_templates({"tfjob": document}, site())["tfjob"]
    assert read == Template(name="tfjob", behaviour=Behaviour.TFJOB, image="mine", env={"A": "1"})


def test_a_script_and_its_image_and_directory_are_no_argv() -> None:
    customize = Catalogue().find("customize")
    values = {"images": "busybox", "workdir": "/w", "command": "echo 'a b'"}
    assert start(customize, values) == Start(image="busybox", workdir="/w", script="echo 'a b'")


def test_in_a_template_with_a_command_the_same_names_are_argv() -> None:
    plain = read_templates(template(job_template_command="run 'a b'", job_template_workdir="/d"), site())["t"]
    began = start(plain, {"--images": "x", "command": "y"}, template_workdir=plain.workdir)
    assert began == Start(image="busybox", workdir="/d", words=("run", "a b"), argv=("--images", "x", "command", "y"))


def test_a_tasks_own_command_takes_the_place_of_the_templates() -> None:
    plain = read_templates(template(job_template_command="run"), site())["t"]
    began = start(plain, {"-a": 1}, command="echo x", workdir="/own")
    assert began == Start(image="busybox", workdir="/own", script="echo x", argv=("-a", "1"))


def test_python_runs_its_code() -> None:
    began = start(Catalogue().find("python"), {"images": None, "workdir": None, "code": "print(1)"})
    assert (began.words, began.image) == (("python3", "-c", "print(1)"), "python:3")


def test_a_distributed_template_has_so_many_replicas() -> None:
    torch = read_templates(case("support-job-templates.json"), site())["pytorchjob"]
    values = {"--image": "torch", "--working_dir": "/w", "--command": "bash start.sh", "--num_worker": "3"}
    assert start(torch, values) == Start(image="torch", workdir="/w", script="bash start.sh", replicas=3)
    for number in ("0", "x", "10001"):
        with pytest.raises(NotationError, match="num_worker"):
            start(torch, {**values, "--num_worker": number})
    with pytest.raises(NotationError, match="needs a command"):
        start(torch, {**values, "--command": None})


def test_a_task_needs_an_image() -> None:
    with pytest.raises(NotationError, match="no image"):
        start(Catalogue().find("customize"), {"images": None, "command": "x"})


def test_many_templates_take_time_in_proportion(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def counted(name: str) -> str:
        calls.append(name)
        return name

    monkeypatch.setattr(templates, "canonical_name", counted)
    document = {f"t{number}": {"job_template_name": f"t{number}", "image_name": "busybox"} for number in range(500)}
    assert len(read_templates(document, Site())) == 500
    assert len(calls) < 10 * 500, "a name is not compared with all others"
