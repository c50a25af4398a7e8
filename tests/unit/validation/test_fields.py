from __future__ import annotations

from typing import Any

import pytest

from pipeline_core.errors import MissingParameter, UnsupportedPluginType, WrongParameter
from pipeline_core.validation.errors import ValidationErrors
from pipeline_core.validation.fields import FieldReader


def body_of(raw: dict[str, Any], prefix: str = "") -> FieldReader:
    return FieldReader(raw, ValidationErrors(), prefix)


@pytest.mark.parametrize("raw", [{}, {"name": None}, {"name": ""}, {"name": []}, {"name": {}}])
def test_a_required_field_that_is_absent_null_or_empty_is_missing(raw: dict[str, Any]) -> None:
    fields = body_of(raw)
    fields.text("name", required=True)
    with pytest.raises(MissingParameter, match="name: is required") as caught:
        fields.finish()
    assert list(caught.value.errors) == ["name"]


@pytest.mark.parametrize("value", [0, False, 1.5, ["a"], {"a": 1}])
def test_a_required_field_of_another_type_is_wrong(value: Any) -> None:
    fields = body_of({"name": value})
    fields.text("name", required=True)
    with pytest.raises(WrongParameter, match="name: must be a text"):
        fields.finish()


def test_an_optional_field_that_is_null_counts_as_left_out() -> None:
    fields = body_of({"a": None, "b": None})
    assert fields.text("a", default="x") == "x"
    assert fields.flag("b", default=True) is True
    fields.finish()


@pytest.mark.parametrize("value", ["true", 1, 0, []])
def test_a_flag_is_true_or_false_and_nothing_else(value: Any) -> None:
    fields = body_of({"flag": value})
    fields.flag("flag")
    with pytest.raises(WrongParameter, match="flag: must be true or false"):
        fields.finish()


def test_unknown_fields_are_wrong_and_echoed_ones_are_ignored() -> None:
    fields = body_of({"key": "k", "colour": "red", "sequence": 3, "createdAt": None}, "tasks[0]")
    with pytest.raises(WrongParameter) as caught:
        fields.finish()
    assert set(caught.value.errors) == {"tasks[0].colour"}


def test_what_was_found_first_decides_the_error_and_all_is_told() -> None:
    fields = body_of({"b": 1})
    fields.text("a", required=True)
    fields.text("b")
    fields.add_error("c", "is unheard of", UnsupportedPluginType)
    with pytest.raises(MissingParameter, match=r"a: is required .* \(and 2 more\)") as caught:
        fields.finish()
    assert list(caught.value.errors) == ["a", "b", "c"]
