from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_core.errors import MissingParameter, PipelineError, UnsupportedPluginType, WrongParameter
from pipeline_core.validation.body import Body
from pipeline_core.validation.texts import header_value, shown, storable

TEXT = st.text("abc.\x00\n\ud800é😀", max_size=5)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=12,
)


@pytest.mark.parametrize("raw", [None, [], "text", 5, True, [{}]])
def test_a_body_that_is_no_object_is_wrong(raw: Any) -> None:
    with pytest.raises(WrongParameter, match="must be a JSON object"):
        Body.of(raw)


@pytest.mark.parametrize("raw", [{}, {"name": None}, {"name": ""}, {"name": []}, {"name": {}}])
def test_a_required_field_lacks_when_it_is_not_there_null_or_empty(raw: dict[str, Any]) -> None:
    body = Body.of(raw)
    body.text("name", required=True)
    with pytest.raises(MissingParameter, match="name: is required") as caught:
        body.finish()
    assert list(caught.value.errors) == ["name"]


@pytest.mark.parametrize("value", [0, False, 1.5, ["a"], {"a": 1}])
def test_a_required_field_of_another_type_is_wrong(value: Any) -> None:
    body = Body.of({"name": value})
    body.text("name", required=True)
    with pytest.raises(WrongParameter, match="name: must be a text"):
        body.finish()


def test_an_optional_field_that_is_null_counts_as_left_out() -> None:
    body = Body.of({"a": None, "b": None, "c": None})
    assert body.text("a", default="x") == "x"
    assert body.flag("b", default=True) is True
    assert body.integer("c", 7, range(1, 10)) == 7
    body.finish()


@pytest.mark.parametrize("value", [0, 11, -1, True, "5", 5.5, 1e400, [5]])
def test_a_number_outside_its_range_or_of_another_type_is_wrong(value: Any) -> None:
    body = Body.of({"n": value})
    body.integer("n", 3, range(1, 11))
    with pytest.raises(WrongParameter, match="n: must be a whole number from 1 to 10"):
        body.finish()


def test_a_whole_number_may_be_written_with_a_point() -> None:
    body = Body.of({"n": 5.0})
    value = body.integer("n", 3, range(1, 11))
    body.finish()
    assert value == 5
    assert isinstance(value, int)


@pytest.mark.parametrize("value", ["true", 1, 0, []])
def test_a_flag_is_true_or_false_and_nothing_else(value: Any) -> None:
    body = Body.of({"flag": value})
    body.flag("flag")
    with pytest.raises(WrongParameter, match="flag: must be true or false"):
        body.finish()


def test_unknown_fields_are_wrong_at_every_level_and_echoed_ones_are_ignored() -> None:
    body = Body.of({"plugins": [{"key": "k", "colour": "red"}], "sequence": 3, "createdAt": None, "extra": 1})
    body.objects("plugins")
    with pytest.raises(WrongParameter) as caught:
        body.finish()
    assert set(caught.value.errors) == {"extra", "plugins[0].colour"}


def test_elements_of_another_type_are_named_by_their_place() -> None:
    body = Body.of({"names": ["a", 1, None], "things": [{}, "x"]})
    assert body.texts("names") == ["a"]
    assert len(body.objects("things")) == 1
    with pytest.raises(WrongParameter) as caught:
        body.finish()
    assert list(caught.value.errors) == ["names[1]", "names[2]", "things[1]"]


@pytest.mark.parametrize("raw", [{}, {"names": None}, {"names": []}, {"names": ""}, {"names": {}}])
def test_a_required_list_lacks_when_it_is_empty(raw: dict[str, Any]) -> None:
    body = Body.of(raw)
    assert body.texts("names") == []
    with pytest.raises(MissingParameter):
        body.finish()


def test_what_was_found_first_decides_the_error_and_all_is_told() -> None:
    body = Body.of({"b": 1})
    body.text("a", required=True)
    body.text("b")
    body.add_error("c", "is unheard of", UnsupportedPluginType)
    with pytest.raises(MissingParameter, match=r"a: is required .* \(and 2 more\)") as caught:
        body.finish()
    assert list(caught.value.errors) == ["a", "b", "c"]


def test_a_secret_is_in_no_message() -> None:
    body = Body.of({"a": "hidden", "b": 4711})
    body.text("a", secret=True, check=lambda text: "must be otherwise")
    body.text("b", secret=True)
    with pytest.raises(WrongParameter) as caught:
        body.finish()
    told = str(caught.value.errors) + caught.value.message
    assert "hidden" not in told
    assert "4711" not in told


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        ({"a": "x\x00"}, "a"),
        ({"a": "\ud800"}, "a"),
        ({"a": {"b": ["", "\udfff"]}}, "a.b[1]"),
        ({"a": {"\x00": 1}}, r'a["\u0000"]'),
        ({"\ud800": 1}, r'["\ud800"]'),
    ],
)
def test_text_that_cannot_be_stored_is_wrong_wherever_it_stands(raw: dict[str, Any], path: str) -> None:
    with pytest.raises(WrongParameter) as caught:
        Body.of(raw).finish()
    assert caught.value.errors[path][0] == "must not contain NUL characters or lone surrogates"
    caught.value.message.encode()


@given(JSON)
def test_any_json_is_read_or_refused_with_words_that_can_be_sent(raw: Any) -> None:
    try:
        body = Body.of(raw)
        body.text("a", required=True)
        body.objects("b")
        body.integer("c", 1, range(3))
        body.finish()
    except PipelineError as error:
        f"{error.message}{error.errors}".encode()


def test_values_are_shown_cut_and_safe_to_print() -> None:
    assert shown("a\ud800") == r'"a\ud800"'
    assert shown("x" * 100).endswith("…")
    assert shown({"a": 1}) == "an object"
    assert shown(None) == "null"


def test_storable_and_sendable_texts() -> None:
    assert storable("große 😀 Worte")
    assert not storable("\x00")
    assert header_value("Bearer a b")
    assert not any(map(header_value, ["", " a", "a ", "a\nb", "ä", "\x7f"]))
