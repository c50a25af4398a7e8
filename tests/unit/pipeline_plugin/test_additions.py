"""What a decorator or binder may do to a TaskSet: all that these methods let through, the service takes."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from pipeline_core.taskset import additive, command
from pipeline_core.taskset.change import Replace
from pipeline_core.taskset.pod_policy import PodPolicy
from pipeline_plugin import additions
from pipeline_plugin.additions import Additions, Binding, NotAdditive

POLICY = PodPolicy(baseline=True, host_paths=())


def job() -> dict[str, Any]:
    main = {
        "name": "main",
        "image": "busybox",
        "command": ["sh", "-c", "run"],
        "env": [{"name": "A", "value": "1"}],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    bare = {"name": "bare", "image": "busybox"}
    return {
        "apiVersion": "octopus.openi.pcl.cn/v1alpha1",
        "kind": "TaskSet",
        "metadata": {"name": "j1", "labels": None},
        "spec": {
            "roles": [
                {
                    "name": "main",
                    "replicas": 2,
                    "template": {
                        "metadata": {"labels": {"team": "a"}},
                        "spec": {"containers": [main, bare], "volumes": [{"name": "data", "emptyDir": {}}]},
                    },
                },
                {
                    "name": "second",
                    "template": {"spec": {"containers": [{"name": "c", "image": "x", "command": ["python", "a.py"]}]}},
                },
            ]
        },
    }


ADDITIONS: dict[str, Callable[[Additions], Any]] = {
    "sidecar": lambda added: added.roles[0].add_sidecar("proxy", "envoy", command=["run"]),
    "init container": lambda added: added.roles[0].add_init_container("prepare", "busybox"),
    "volume": lambda added: added.roles[0].add_volume("scratch", emptyDir={}),
    "the same volume": lambda added: added.roles[0].add_volume("data", emptyDir={}),
    "env of all": lambda added: added.roles[0].add_env("B", "2"),
    "env again": lambda added: added.roles[0].containers[0].add_env("A", "1"),
    "env from": lambda added: (
        added.roles[0].containers[0].add_env("C", value_from={"fieldRef": {"fieldPath": "metadata.name"}})
    ),
    "mount": lambda added: added.roles[0].containers[1].add_volume_mount("data", "/more", readOnly=True),
    "words": lambda added: added.roles[1].containers[0].prefix_command("nice", "-n", "5"),
    "words before a shell": lambda added: added.roles[0].containers[0].prefix_command("nice"),
    "script": lambda added: added.roles[0].containers[0].prefix_script("prepare; "),
    "script, twice": lambda added: [added.roles[0].containers[0].prefix_script(text) for text in ("a\n", "b && ")],
    "label": lambda added: added.roles[1].add_label("team", "b"),
    "label again": lambda added: added.roles[0].add_label("team", "a"),
    "annotation": lambda added: added.roles[0].add_annotation("note", "x"),
    "label of the TaskSet": lambda added: added.add_label("team", "b"),
    "annotation of the TaskSet": lambda added: added.add_annotation("note", "x"),
    "toleration": lambda added: added.roles[0].add_toleration(key="gpu", operator="Exists"),
    "nothing": lambda added: None,
}


@pytest.mark.parametrize("add", ADDITIONS.values(), ids=ADDITIONS)
def test_the_service_takes_each_addition(add: Callable[[Additions], Any]) -> None:
    base = job()
    given = copy.deepcopy(base)
    added = Additions(base)
    add(added)
    additive.decoration(given, added.document, POLICY)
    assert base == given, "what was sent is changed"


REFUSED: dict[str, tuple[Callable[[Additions], Any], str]] = {
    "another value": (
        lambda added: added.roles[0].containers[0].add_env("A", "2"),
        "spec.roles[0].template.spec.containers[0].env[0]",
    ),
    "a value that is no text": (
        lambda added: added.roles[0].containers[0].add_env("B", 2),  # type: ignore[arg-type]
        "spec.roles[0].template.spec.containers[0].env",
    ),
    "no value": (
        lambda added: added.roles[0].containers[0].add_env("B"),
        "spec.roles[0].template.spec.containers[0].env",
    ),
    "another volume": (
        lambda added: added.roles[0].add_volume("data", hostPath={"path": "/"}),
        "spec.roles[0].template.spec.volumes[0]",
    ),
    "no source": (lambda added: added.roles[0].add_volume("new"), "spec.roles[0].template.spec.volumes"),
    "another mount": (
        lambda added: added.roles[0].containers[0].add_volume_mount("other", "/data"),
        "spec.roles[0].template.spec.containers[0].volumeMounts[0]",
    ),
    "a container's name": (
        lambda added: added.roles[0].add_sidecar("main", "other"),
        "spec.roles[0].template.spec.containers[0]",
    ),
    "a container's name, as init container": (
        lambda added: added.roles[0].add_init_container("main", "other"),
        "spec.roles[0].template.spec.containers",
    ),
    "no image": (lambda added: added.roles[0].add_sidecar("new", ""), "spec.roles[0].template.spec.containers"),
    "no command": (
        lambda added: added.roles[0].containers[1].prefix_command("nice"),
        "spec.roles[0].template.spec.containers[1].command",
    ),
    "no words": (
        lambda added: added.roles[1].containers[0].prefix_command(),
        "spec.roles[1].template.spec.containers[0].command",
    ),
    "no shell": (
        lambda added: added.roles[1].containers[0].prefix_script("a;"),
        "spec.roles[1].template.spec.containers[0].command",
    ),
    "no end": (
        lambda added: added.roles[0].containers[0].prefix_script("echo "),
        "spec.roles[0].template.spec.containers[0].command",
    ),
    "words and script": (
        lambda added: (
            added.roles[0].containers[0].prefix_command("nice"),
            added.roles[0].containers[0].prefix_script("a;"),
        ),
        "spec.roles[0].template.spec.containers[0].command",
    ),
    "another label": (
        lambda added: added.roles[0].add_label("team", "b"),
        "spec.roles[0].template.metadata.labels['team']",
    ),
    "a label of the service": (lambda added: added.add_label("pipeline/x", "y"), "metadata.labels['pipeline/x']"),
    "a label that is no text": (
        lambda added: added.add_label("x", 1),  # type: ignore[arg-type]
        "metadata.labels['x']",
    ),
}


@pytest.mark.parametrize(("add", "path"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_additive_raises_with_its_path(add: Callable[[Additions], Any], path: str) -> None:
    with pytest.raises(NotAdditive) as failure:
        add(Additions(job()))
    assert failure.value.path == path
    assert str(failure.value).startswith(path)


def test_a_binder_may_set_what_schedules_pods() -> None:
    base = job()
    bound = Binding(base)
    bound.set_scheduler("volcano")
    bound.set_priority_class("high")
    bound.roles[0].set_label("team", "b")
    bound.roles[1].set_annotation("note", "x")
    bound.roles[0].add_env("B", "2")
    change = additive.binding(base, bound.document, POLICY)
    assert Replace(("spec", "roles", 0, "template", "metadata", "labels", "team"), "b") in change.entries
    with pytest.raises(NotAdditive):
        bound.roles[0].set_label("pipeline/x", "y")
    with pytest.raises(NotAdditive):
        bound.set_scheduler("")


COMMANDS: list[list[str]] = [
    [],
    ["sh"],
    ["sh", "-c"],
    ["sh", "-c", "run"],
    ["/bin/bash", "-euo", "pipefail", "-c", "run"],
    ["bash", "--norc", "-c", "run"],
    ["sh", "-c", "--", "run"],
    ["sh", "+e", "-c", "run", "name"],
    ["python", "-c", "run"],
    ["sh", "file", "-c", "run"],
]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_scripts_are_found_as_the_service_finds_them(words: list[str]) -> None:
    assert additions.script_index(words) == command.script_index(words)


@pytest.mark.parametrize(
    "text", ["a;", "a; ", "a &&", "a\n", "# a\n", "# a;", "a \\;", "a \\", "a", "", ";\n", "a\n# b;"]
)
def test_a_text_ends_a_command_as_the_service_sees_it(text: str) -> None:
    grown = command.growth(["sh", "-c", "run"], ["sh", "-c", text + "run"])
    assert additions.ends_a_command(text) == isinstance(grown, command.LeadingScript)


def test_the_shells_and_the_reserved_prefix_are_those_of_the_service() -> None:
    assert set(additions.SHELLS) == command.SHELLS
    assert additions.RESERVED == additive.RESERVED_PREFIX
