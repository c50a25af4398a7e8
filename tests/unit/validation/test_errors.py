from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_core.errors import MissingParameter, WrongParameter
from pipeline_core.validation.errors import MAX_ERRORS, Path, ValidationErrors, join_path, path_text


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ((), "."),
        (("spec", "roles", 0, "name"), "spec.roles[0].name"),
        (("plugins", 3), "plugins[3]"),
        (("metadata", "labels", "a/b"), 'metadata.labels["a/b"]'),
        (("args", "--day", "type"), "args.--day.type"),
        (("my-flow", "tasks", 0), "my-flow.tasks[0]"),
        (("", "0", "a.b"), '[""]["0"]["a.b"]'),
        (("\x00", "\ud800"), '["\\u0000"]["\\ud800"]'),
    ],
)
def test_paths_have_one_notation(path: Path, text: str) -> None:
    assert path_text(path) == text
    text.encode()


@given(st.lists(st.text(max_size=4) | st.integers(0, 9)), st.lists(st.text(max_size=4) | st.integers(0, 9)))
def test_a_path_can_be_written_in_parts(front: list[str | int], back: list[str | int]) -> None:
    assert join_path(join_path("", *front), *back) == join_path("", *front, *back)


def test_of_very_many_errors_a_hundred_are_told_and_how_many_more() -> None:
    inner, outer = ValidationErrors(), ValidationErrors()
    for number in range(100_000):
        inner.add(f"a[{number}]", "is wrong")
    assert inner.sentence() == "a[0]: is wrong (and 99999 more)"
    assert len(inner.by_path) == MAX_ERRORS + 1
    assert inner.by_path["."] == ["99900 more errors are not listed"]
    outer.add("b", "is required", MissingParameter)
    outer.adopt(WrongParameter(errors=inner.by_path))
    with pytest.raises(MissingParameter) as caught:
        outer.raise_any()
    assert caught.value.message == "b: is required (and 100000 more)"
    assert len(caught.value.errors) == MAX_ERRORS + 1
    assert caught.value.errors["."] == ["99901 more errors are not listed"]


def test_the_first_error_decides_the_class_and_all_are_told_by_path() -> None:
    errors = ValidationErrors()
    errors.raise_any()
    assert not errors
    errors.add("a", "is required", MissingParameter)
    errors.adopt(WrongParameter("b", errors={"b": ["one", "two"], "a": ["three"]}))
    with pytest.raises(MissingParameter) as caught:
        errors.raise_any()
    assert caught.value.message == "a: is required (and 3 more)"
    assert caught.value.errors == {"a": ["is required", "three"], "b": ["one", "two"]}
    assert errors.sentence(" ") == "a is required (and 3 more)"
