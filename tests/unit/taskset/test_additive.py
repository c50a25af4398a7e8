from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_core.taskset.additive import NotAdditive, binding, decoration
from pipeline_core.taskset.change import Insert, Put, Replace, TaskSetChange, apply, patch
from pipeline_core.taskset.merge import decorated
from pipeline_core.taskset.pod_policy import PodPolicy, PodPolicyError
from pipeline_core.taskset.schema import TaskSetError
from tests.unit.taskset.documents import BASE, Doc, additions, main, pod, template, variant

CASES = Path(__file__).parents[2] / "cases"
ROWS = [
    pytest.param(table["base"], row, id=f"{file.stem}: {row['why']}")
    for file in sorted(CASES.glob("decorations*.json"))
    for table in [json.loads(file.read_text())]
    for row in table["cases"]
]
MAIN = "spec.roles[0].template.spec.containers[0]"


@pytest.mark.parametrize(("base", "row"), ROWS)
def test_an_answer_is_accepted_or_refused_as_the_table_says(base: Doc, row: dict[str, Any]) -> None:
    if row["accepted"]:
        assert len(patch(base, decoration(base, row["decorated"]))) == len(decoration(base, row["decorated"]).entries)
        return
    with pytest.raises((NotAdditive, PodPolicyError, TaskSetError)) as caught:
        decoration(base, row["decorated"])
    assert caught.value.errors
    assert next(iter(caught.value.errors)) in caught.value.message


TOKEN: Any = {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}

REFUSED = [
    ("an old value", lambda d: main(d).update(image="evil"), f"{MAIN}.image", "was"),
    ("a removed key", lambda d: main(d).pop("env"), f"{MAIN}.env", "was removed"),
    ("a removed element", lambda d: main(d)["env"].pop(0), f"{MAIN}.env[1]", "was removed"),
    ("two elements swapped", lambda d: main(d)["env"].reverse(), f"{MAIN}.env[1]", "moved"),
    ("an old toleration altered", lambda d: pod(d)["tolerations"][0].update(key="x"), "tolerations[0]", "was removed"),
    ("another type", lambda d: d["metadata"].update(labels=None), "metadata.labels", "null"),
    ("a truth for a number", lambda d: d["spec"].update(count=True), "spec.count", "true"),
    ("a role", lambda d: d["spec"]["roles"].append(variant(lambda e: None)["spec"]["roles"][0] | {"name": "b"}),
     "spec.roles[1]", "no roles"),
    ("a replica", lambda d: d["spec"]["roles"][0].update(replicas=3), "spec.roles[0].replicas", "was changed"),
    ("a deadline", lambda d: d["spec"].update(activeDeadlineSeconds=5), "spec.activeDeadlineSeconds", "was added"),
    ("the pod's deadline", lambda d: pod(d).update(activeDeadlineSeconds=5), "activeDeadlineSeconds", "was added"),
    ("an account", lambda d: pod(d).update(serviceAccountName="a"), "serviceAccountName", "was added"),
    ("an account by its old name", lambda d: pod(d).update(serviceAccount="a"), "serviceAccount", "was added"),
    ("a token", lambda d: pod(d).update(automountServiceAccountToken=True),
     "automountServiceAccountToken", "was added"),
    ("a node", lambda d: pod(d).update(nodeName="n"), "spec.nodeName", "was added"),
    ("a projected token", lambda d: pod(d)["volumes"].append(TOKEN),
     "projected.sources[0].serviceAccountToken", "was added"),
    ("a scheduler", lambda d: pod(d).update(schedulerName="s"), "schedulerName", "was added"),
    ("a policy for an init container", lambda d: pod(d)["initContainers"][0].update(restartPolicy="Always"),
     "initContainers[0].restartPolicy", "was added"),
    ("args where there are none", lambda d: pod(d)["initContainers"][0].update(args=["x"]),
     "initContainers[0].args", "was added"),
    ("a command where there is none", lambda d: pod(d)["initContainers"][0].update(command=["x"]),
     "initContainers[0].command", "was added"),
    ("an event policy where one stands", lambda d: d["spec"]["roles"][0]["eventPolicy"].append(
        {"event": "RoleSucceeded", "action": "NoAction"}), "spec.roles[0].eventPolicy", "was changed"),
    ("a key in a retry policy that stands", lambda d: d["spec"]["retryPolicy"].update(delay=5),
     "spec.retryPolicy", "was changed"),
    ("a label of the service", lambda d: template(d).update(metadata={"labels": {"pipeline/role": "x"}}),
     'template.metadata.labels["pipeline/role"]', "was added"),
    ("an annotation of the service", lambda d: d["metadata"].update(annotations={"pipeline/sidecars": "[]"}),
     'metadata.annotations["pipeline/sidecars"]', "was added"),
    ("a namespace of the pods", lambda d: template(d).update(metadata={"namespace": "x"}),
     "template.metadata.namespace", "was added"),
]  # fmt: skip


@pytest.mark.parametrize(("what", "edit", "at", "says"), REFUSED, ids=[row[0] for row in REFUSED])
def test_a_decorator_is_refused_with_path_and_reason(what: str, edit: Any, at: str, says: str) -> None:
    with pytest.raises(NotAdditive) as caught:
        decoration(BASE, variant(edit))
    (path,) = [path for path in caught.value.errors if at in path]
    assert says in caught.value.errors[path][0]


def test_the_same_element_twice_is_refused_even_when_both_are_new() -> None:
    with pytest.raises(NotAdditive, match="twice"):
        decoration(BASE, variant(lambda d: main(d)["env"].extend([{"name": "N"}, {"name": "N"}])))


def test_ports_of_one_number_and_two_protocols_are_two_ports() -> None:
    base = variant(lambda d: main(d).update(ports=[{"containerPort": 53}]))
    decoration(base, variant(lambda d: main(d)["ports"].append({"containerPort": 53, "protocol": "UDP"}), base))
    with pytest.raises(NotAdditive, match="twice"):
        decoration(base, variant(lambda d: main(d)["ports"].append({"containerPort": 53, "protocol": "TCP"}), base))


def test_what_the_user_named_twice_is_no_fault_of_the_decorator() -> None:
    base = variant(lambda d: main(d)["env"].append({"name": "A", "value": "2"}))
    assert decoration(base, copy.deepcopy(base)) == TaskSetChange()


@pytest.mark.parametrize(
    "edit",
    [
        lambda d: d["spec"]["roles"][0].update(retryPolicy={"retry": True}),
        lambda d: pod(d).update(priorityClassName="high"),
        lambda d: pod(d)["initContainers"].insert(0, {"name": "first", "image": "x", "restartPolicy": "Always"}),
        lambda d: main(d).update(livenessProbe={"exec": {"command": ["true"]}}),
        lambda d: pod(d)["volumes"][0]["emptyDir"].update(sizeLimit="1Gi"),
    ],
)
def test_a_decorator_may_add_what_was_not_there(edit: Any) -> None:
    answer = variant(edit)
    change = decoration(BASE, answer)
    assert len(change.entries) == 1
    assert apply(BASE, change) == answer


@pytest.mark.parametrize("absent", [None, {}])
def test_what_is_null_may_be_added_to_as_if_it_were_not_there(absent: Any) -> None:
    base = variant(lambda d: d["metadata"].update(labels=absent))
    answer = variant(lambda d: d["metadata"].update(labels={"team": "a"}))
    assert decorated(base, [("a", decoration(base, answer))]) == answer
    with pytest.raises(NotAdditive):
        decoration(base, variant(lambda d: d["metadata"].update(labels={"pipeline/x": "a"})))


def test_a_command_that_is_null_is_none() -> None:
    def container(document: Any) -> Any:
        return document["spec"]["roles"][0]["template"]["spec"]["containers"][0]

    base = variant(lambda d: container(d).update(command=None))
    with pytest.raises(NotAdditive, match="command was added"):
        decoration(base, variant(lambda d: container(d).update(command=["sh"])))


def test_the_old_spelling_of_a_number_stays() -> None:
    change = decoration(BASE, variant(lambda d: d["spec"].update(count=1.0)))
    assert not change
    assert json.dumps(apply(BASE, change)) == json.dumps(BASE)


def test_a_projected_token_may_stay_and_be_given_other_sources_but_no_other_audience() -> None:
    def with_sources(*sources: Any) -> Any:
        return variant(lambda d: pod(d)["volumes"].append({"name": "token", "projected": {"sources": [*sources]}}))

    own, other = TOKEN["projected"]["sources"][0], {"serviceAccountToken": {"path": "token", "audience": "vault"}}
    base, more = with_sources(own), with_sources(own, {"configMap": {"name": "c"}})
    assert apply(base, decoration(base, more)) == more
    for answer in (with_sources(own, other), with_sources(other), with_sources(own, own, other)):
        with pytest.raises(NotAdditive):
            decoration(base, answer)


def test_a_projected_token_is_refused_where_a_pod_had_no_volumes() -> None:
    def bare(document: Any) -> None:
        pod(document).pop("volumes")
        for container in (*pod(document)["containers"], *pod(document)["initContainers"]):
            container.pop("volumeMounts", None)

    base = variant(bare)
    assert decoration(base, variant(lambda d: pod(d).update(volumes=[{"name": "v", "emptyDir": {}}]), base))
    with pytest.raises(NotAdditive, match="serviceAccountToken"):
        decoration(base, variant(lambda d: pod(d).update(volumes=[TOKEN]), base))


def test_a_binder_may_set_and_replace_what_the_scheduler_reads() -> None:
    base = variant(lambda d: (pod(d).update(schedulerName="old"), template(d).update(metadata={"labels": {"a": "1"}})))
    answer = variant(
        lambda d: (
            pod(d).update(schedulerName="volcano", priorityClassName="high"),
            template(d)["metadata"].update(labels={"a": "2", "b": "3"}, annotations={"group": "g"}),
        ),
        base,
    )
    change = binding(base, answer)
    assert apply(base, change) == answer
    assert {type(entry) for entry in change.entries} == {Put, Replace}
    with pytest.raises(NotAdditive):
        decoration(base, answer)


@pytest.mark.parametrize(
    "edit",
    [
        lambda d: pod(d).pop("schedulerName"),
        lambda d: template(d)["metadata"]["labels"].pop("a"),
        lambda d: template(d)["metadata"]["labels"].update({"pipeline/role": "x"}),
        lambda d: template(d)["metadata"]["labels"].update({"pipeline/job-id": "x"}),
        lambda d: d["metadata"]["labels"].update(owner="x"),
        lambda d: main(d).update(image="x"),
        lambda d: pod(d).update(serviceAccountName="x"),
        lambda d: pod(d).update(nodeName="x"),
        lambda d: pod(d).setdefault("volumes", []).append(TOKEN),
        lambda d: d["spec"]["roles"][0].update(name="x"),
    ],
)
def test_a_binder_may_do_nothing_else_than_add(edit: Any) -> None:
    labels = {"a": "1", "pipeline/job-id": "j"}
    base = variant(lambda d: (pod(d).update(schedulerName="old"), template(d).update(metadata={"labels": labels})))
    with pytest.raises(NotAdditive):
        binding(base, variant(edit, base))


def test_what_is_added_must_keep_to_the_pod_policy_unless_there_is_none() -> None:
    answer = variant(lambda d: pod(d).update(hostNetwork=True))
    with pytest.raises(PodPolicyError, match="hostNetwork"):
        binding(BASE, answer)
    assert decoration(BASE, answer, PodPolicy(baseline=False))


def test_inserted_elements_remember_their_place() -> None:
    change = decoration(BASE, variant(lambda d: main(d)["env"].insert(1, {"name": "N"})))
    assert change.entries == (
        Insert(("spec", "roles", 0, "template", "spec", "containers", 0, "env"), 1, {"name": "N"}),
    )


@given(additions())
def test_applying_the_change_gives_the_answer(answer: Doc) -> None:
    before = copy.deepcopy(BASE)
    assert apply(BASE, decoration(BASE, answer)) == answer
    assert before == BASE


@given(st.data())
def test_additions_compose(data: st.DataObject) -> None:
    first = data.draw(additions(tag="p"))
    second = data.draw(additions(first, tag="q"))
    assert decoration(BASE, first) is not None
    assert decoration(first, second) is not None
    assert apply(BASE, decoration(BASE, second)) == second


@given(additions())
def test_an_unchanged_document_is_no_change(document: Doc) -> None:
    assert decoration(document, copy.deepcopy(document)) == TaskSetChange()


def leaves(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    inner = (
        list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    )
    return [leaf for key, child in inner for leaf in leaves(child, (*path, key))] if inner else [path]


def counterpart(new: list[Any], old: Any) -> int:
    """Where an old element stands now: elements may have been added before it."""
    name = old.get("name") if isinstance(old, dict) else None
    return max(i for i, element in enumerate(new) if element == old or (name and element["name"] == name))


@given(additions(), st.sampled_from(leaves(BASE)), st.booleans(), st.sampled_from(["other", -7, None, [7]]))
def test_whatever_else_it_adds_no_answer_may_change_or_remove_an_old_leaf(
    answer: Doc, leaf: tuple[str | int, ...], remove: bool, other: Any
) -> None:
    old: Any = BASE
    new: Any = answer
    for part in leaf:
        place = part if isinstance(part, str) else counterpart(new, old[part])
        parent, old, new = new, old[part], new[place]
    if remove:
        del parent[place]
    else:
        parent[place] = other
    with pytest.raises((NotAdditive, TaskSetError)):
        decoration(BASE, answer)
