"""Patches between two documents."""

from __future__ import annotations

import copy
from typing import Any

import jsonpatch
from hypothesis import given
from hypothesis import strategies as st

from pipeline_core.taskset.additive import decoration
from pipeline_core.taskset.comparison import patch_between
from pipeline_core.taskset.merge import MergeConflict, decorated
from pipeline_core.taskset.schema import TaskSetError
from pipeline_core.taskset.values import equal
from tests.unit.taskset.documents import BASE, additions, main, variant

values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "a", "a/b", "~"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "a/b", "~"]), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from("abc"), values), st.dictionaries(st.sampled_from("abc"), values))
def test_the_patch_between_any_two_documents_makes_one_of_the_other(before: Any, after: Any) -> None:
    assert equal(jsonpatch.apply_patch(copy.deepcopy(before), patch_between(before, after)), after)
    assert patch_between(before, before) == []


def test_where_there_was_nothing_the_patch_has_all() -> None:
    assert jsonpatch.apply_patch({}, patch_between(None, BASE)) == BASE


def test_an_element_that_is_put_before_others_is_all_that_the_patch_names() -> None:
    after = variant(lambda d: main(d)["env"].insert(0, {"name": "new", "value": "x"}))
    where = "/spec/roles/0/template/spec/containers/0/env/0"
    assert patch_between(BASE, after) == [{"op": "add", "path": where, "value": {"name": "new", "value": "x"}}]


@given(st.lists(additions(), max_size=3))
def test_between_the_versions_of_a_decorated_taskset_patches_only_add_and_prepend(answers: list[Any]) -> None:
    changes = [(f"plugin-{index}", decoration(BASE, answer)) for index, answer in enumerate(answers)]
    before: Any = BASE
    for count in range(len(changes)):
        try:
            after = decorated(BASE, changes[: count + 1])
        except (MergeConflict, TaskSetError):
            return
        patch = patch_between(before, after)
        assert equal(jsonpatch.apply_patch(copy.deepcopy(before), patch), after)
        for operation in patch:
            assert operation["op"] == "add" or isinstance(operation["value"], str), operation
        before = after
