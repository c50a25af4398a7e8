from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_core.taskset.additive import binding, decoration
from pipeline_core.taskset.change import apply, patch
from pipeline_core.taskset.document import SIDECARS, counting, sidecars
from pipeline_core.taskset.merge import MergeConflict, decorated, merge
from pipeline_core.taskset.schema import TaskSetError, check
from tests.unit.taskset.documents import BASE, Doc, additions, containers, main, pod, template, variant


def together(*edits: Any, base: Doc = BASE) -> Doc:
    answers = [(f"plugin-{index}", decoration(base, variant(edit, base))) for index, edit in enumerate(edits)]
    return decorated(base, answers)


def names(elements: list[Doc]) -> list[str]:
    return [element["name"] for element in elements]


def test_no_answers_leave_the_taskset_as_it_is() -> None:
    assert decorated(BASE, []) == BASE
    assert together(lambda d: None, lambda d: None) == BASE


def test_new_elements_stand_by_sequence_before_the_first_old_one_or_after_the_last() -> None:
    result = together(
        lambda d: main(d).update(
            env=[{"name": "P"}, main(d)["env"][0], {"name": "Q"}, main(d)["env"][1], {"name": "R"}]
        ),
        lambda d: main(d).update(env=[{"name": "S"}, *main(d)["env"], {"name": "T"}]),
    )
    assert names(main(result)["env"]) == ["P", "S", "A", "B", "Q", "R", "T"]


def test_lists_that_were_not_there_are_joined_by_sequence() -> None:
    result = together(
        lambda d: main(d).update(ports=[{"containerPort": 1}, {"containerPort": 2}]),
        lambda d: main(d).update(ports=[{"containerPort": 2}, {"containerPort": 3}]),
    )
    assert [port["containerPort"] for port in main(result)["ports"]] == [1, 2, 3]


def test_objects_that_were_not_there_are_united() -> None:
    result = together(
        lambda d: main(d).update(resources={"limits": {"cpu": "1"}}),
        lambda d: main(d).update(resources={"limits": {"memory": "1Gi", "cpu": "1"}}),
    )
    assert main(result)["resources"] == {"limits": {"cpu": "1", "memory": "1Gi"}}


def test_an_equal_element_is_added_once() -> None:
    def edit(document: Doc) -> None:
        pod(document)["tolerations"].append({"key": "x"})
        main(document)["env"].append({"name": "N", "value": "1"})

    result = together(edit, edit)
    assert pod(result)["tolerations"] == [{"key": "gpu"}, {"key": "x"}]
    assert names(main(result)["env"]) == ["A", "B", "N"]


def test_two_that_put_something_before_a_command_both_stay_the_earlier_first() -> None:
    result = together(
        lambda d: main(d)["command"].insert(0, "nice"),
        lambda d: main(d)["command"].insert(0, "nice"),
        lambda d: main(d)["command"].__setitem__(2, "a; run"),
        lambda d: main(d)["command"].__setitem__(2, "b && run"),
        lambda d: main(d).update(command=["numactl", "--", *main(d)["command"]]),
    )
    assert main(result)["command"] == ["nice", "nice", "numactl", "--", "sh", "-c", "a; b && run"]


CONFLICTS = [
    ("metadata.labels.x", lambda d, v: d["metadata"]["labels"].update(x=v)),
    ("metadata.annotations.x", lambda d, v: d["metadata"].update(annotations={"x": v})),
    ("spec.roles[0].template.spec.nodeSelector.x", lambda d, v: pod(d).update(nodeSelector={"x": v})),
    ("spec.roles[0].template.spec.containers[0].env[N]", lambda d, v: main(d)["env"].append({"name": "N", "value": v})),
    ("spec.roles[0].template.spec.containers[side]", lambda d, v: containers(d).append({"name": "side", "image": v})),
    (
        "spec.roles[0].template.spec.imagePullSecrets[s]",
        lambda d, v: pod(d).update(imagePullSecrets=[{"name": "s", "v": v}]),
    ),
    ("spec.x", lambda d, v: d["spec"].update(x={"b": v} if v == "1" else [v])),
    ("spec.roles[0].retryPolicy", lambda d, v: d["spec"]["roles"][0].update(retryPolicy={"maxRetryCount": int(v)})),
]


@pytest.mark.parametrize(("path", "edit"), CONFLICTS, ids=[row[0] for row in CONFLICTS])
def test_a_conflict_names_both_plugins_and_the_path(path: str, edit: Any) -> None:
    with pytest.raises(MergeConflict) as caught:
        together(lambda d: None, lambda d: edit(d, "1"), lambda d: edit(d, "1"), lambda d: edit(d, "2"))
    assert caught.value.path == path
    assert caught.value.plugins == ("plugin-1", "plugin-3")
    assert all(text in caught.value.message for text in (path, "plugin-1", "plugin-3"))


@pytest.mark.parametrize(
    ("first", "second", "says"),
    [
        ({"value": "1"}, {"value": "2"}, '.value is set to "1" by plugin-0 and to "2" by plugin-1'),
        ({"value": "1"}, {"valueFrom": {}}, '.value is set to "1" by plugin-0 and to nothing by plugin-1'),
        (
            {"value": "x" * 200 + "one"},
            {"value": "x" * 200 + "two"},
            f'.value is set to …{"x" * 30}one" by plugin-0 and to …{"x" * 30}two" by plugin-1',
        ),
        (
            {"valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
            '.valueFrom.fieldRef.fieldPath is set to "metadata.name" by plugin-0 and to "metadata.uid" by plugin-1',
        ),
    ],
)
def test_a_conflict_shows_both_values_from_where_they_differ(first: Doc, second: Doc, says: str) -> None:
    with pytest.raises(MergeConflict) as caught:
        together(*(lambda d, v=value: main(d)["env"].append({"name": "N", **v}) for value in (first, second)))
    assert f"env[N]{says};" in caught.value.message


def test_a_conflict_of_secrets_shows_none_of_them() -> None:
    with pytest.raises(MergeConflict) as caught:
        together(*(lambda d, v=value: main(d)["env"].append({"name": "TOKEN", "value": v}) for value in ("one", "two")))
    assert 'env[TOKEN].value is set to "***" by plugin-0' in caught.value.message
    assert "one" not in caught.value.message.replace("one of the two", "")


def test_changes_that_are_right_alone_and_wrong_together_are_found() -> None:
    with pytest.raises(TaskSetError, match="helper"):
        together(
            lambda d: containers(d).append({"name": "helper", "image": "x"}),
            lambda d: pod(d)["initContainers"].append({"name": "helper", "image": "x"}),
        )


def test_added_containers_are_marked_and_do_not_count() -> None:
    result = together(
        lambda d: containers(d).insert(0, {"name": "one", "image": "x"}),
        lambda d: (
            containers(d).append({"name": "two", "image": "x"}),
            template(d).update(metadata={"annotations": {"team": "t"}}),
        ),
    )
    assert json.loads(template(result)["metadata"]["annotations"][SIDECARS]) == ["one", "two"]
    assert template(result)["metadata"]["annotations"]["team"] == "t"
    assert counting(template(result)) == ("main",)
    bound = variant(lambda d: containers(d).append({"name": "three", "image": "x"}), result)
    last = decorated(result, [("binder", binding(result, bound))])
    assert sidecars(template(last)) == ("one", "two", "three")


def test_init_containers_need_no_mark() -> None:
    result = together(lambda d: pod(d)["initContainers"].append({"name": "more", "image": "x"}))
    assert sidecars(template(result)) == ()


def test_neither_base_nor_changes_are_altered() -> None:
    base = copy.deepcopy(BASE)
    annotations: Doc = {"annotations": {"team": "t"}}
    change = decoration(
        base,
        variant(
            lambda d: (template(d).update(metadata=annotations), containers(d).append({"name": "s", "image": "x"}))
        ),
    )
    before = copy.deepcopy(change)
    assert decorated(base, [("p", change)]) == decorated(base, [("p", change)])
    assert (base, change) == (BASE, before)


def test_the_patch_is_plain_rfc_6902() -> None:
    change = decoration(
        BASE,
        variant(
            lambda d: (d["metadata"]["labels"].update({"a/b~c": "1"}), main(d)["command"].__setitem__(2, "a; run"))
        ),
    )
    assert patch(BASE, change) == [
        {"op": "add", "path": "/metadata/labels/a~1b~0c", "value": "1"},
        {"op": "replace", "path": "/spec/roles/0/template/spec/containers/0/command/2", "value": "a; run"},
    ]


three = st.tuples(additions(tag="p"), additions(tag="q"), additions(tag="r"))


@given(three, st.permutations(range(3)))
def test_the_result_depends_on_the_sequence_and_not_on_who_answered_first(
    answers: tuple[Doc, ...], arrival: list[int]
) -> None:
    in_order = [(str(index), decoration(BASE, answer)) for index, answer in enumerate(answers)]
    arrived = {index: decoration(BASE, answers[index]) for index in arrival}
    assert merge(BASE, in_order) == merge(BASE, [(str(index), arrived[index]) for index in sorted(arrived)])


@given(three)
def test_everything_old_and_everything_new_is_in_the_result(answers: tuple[Doc, ...]) -> None:
    result = decorated(BASE, [(str(index), decoration(BASE, answer)) for index, answer in enumerate(answers)])
    check(result)
    decoration(BASE, variant(lambda d: template(d).pop("metadata", None), result))
    for answer in answers:
        assert {frozenset(e.items()) for e in main(answer)["env"]} <= {
            frozenset(e.items()) for e in main(result)["env"]
        }
        assert answer["metadata"]["labels"].items() <= result["metadata"]["labels"].items()
        assert set(names(containers(answer))) <= set(names(containers(result)))


@given(three)
def test_merging_stepwise_is_the_same_as_merging_at_once(answers: tuple[Doc, ...]) -> None:
    first, second, third = [(str(index), decoration(BASE, answer)) for index, answer in enumerate(answers)]
    at_once = merge(BASE, [first, second, third])
    stepwise = merge(BASE, [("0+1", merge(BASE, [first, second])), third])
    assert apply(BASE, at_once) == apply(BASE, stepwise)
