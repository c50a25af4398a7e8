from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_core.errors import WrongParameter
from pipeline_core.selectors.conditions import compile_expect, reader, text_of


@pytest.mark.parametrize(
    ("expect", "text", "accepted"),
    [
        ("/a.b/", "a\nb", False),
        ("/a.b/s", "a\nb", True),
        ("/^b$/", "a\nb", False),
        ("/^b$/m", "a\nb", True),
        ("/^B.c$/ims", "a\nb\nc", True),
        ("/A|B/i", "xbx", True),
        (r"/a\/b/", "xa/bx", True),
        ("/a/b/", "xa/bx", True),
        (r"/a\\/", "a\\", True),
        (r"/a\/b", "/a/b", True),
        (r"/a\/b", "xa/bx", False),
        ("//", "anything", True),
        ("/", "/", True),
        ("/", "a/b", False),
        ("/usr/lib64", "/usr/lib64", True),
        ("a/b/i", "A/B/I", False),
        ("a|ab", "ab", True),
        ("^a$|^b$", "b", True),
        ("debug", "debug\n", False),
        ("(", "(", True),
        (r"(?=x)", "x", False),
        ("/./", "\ud800", True),
        ("\ud800.", "\ud800.", True),
        ("/ß/i", "ß", True),
        ("日.", "日本", True),
    ],
)
def test_expect_accepts_a_text_or_not(expect: str, text: str, accepted: bool) -> None:
    assert compile_expect(expect)(text) is accepted


@pytest.mark.parametrize(
    ("expect", "words"),
    [
        ("/usr/bin", "a path is written ^/usr/bin$"),
        ("/x/I", 'the flags "I"'),
        ("/x/é", 'the flags "é"'),
        ("/(/", "missing )"),
        ("/*/", "no argument for repetition"),
        (r"/(a)\1/", "invalid escape"),
        ("/\ud800/", "surrogates"),
        ("/" + "(" * 100_000 + "/", "…"),
    ],
)
def test_an_expression_in_slashes_that_cannot_be_is_refused_with_a_short_reason(expect: str, words: str) -> None:
    with pytest.raises(WrongParameter) as caught:
        compile_expect(expect)
    assert words in caught.value.message
    assert len(caught.value.message) < 400


def test_a_pattern_that_does_not_compile_writes_nothing_to_the_log(capfd: pytest.CaptureFixture[str]) -> None:
    compile_expect("never seen before (")
    assert capfd.readouterr().err == ""


@given(st.text())
def test_a_text_that_is_not_read_as_an_expression_accepts_itself(text: str) -> None:
    try:
        accepts = compile_expect("x" + text)
    except WrongParameter:
        pytest.fail("only a text that begins with a slash can be refused")
    assert accepts("x" + text)


@given(st.text(alphabet="/\\ab(*", max_size=12), st.text())
def test_any_expect_is_refused_or_answers(expect: str, text: str) -> None:
    try:
        accepts = compile_expect(expect)
    except WrongParameter:
        return
    assert isinstance(accepts(text), bool)


def test_a_pattern_that_would_hang_a_backtracking_engine_answers() -> None:
    assert compile_expect("/^(a+)+$/")("a" * 50_000 + "b") is False


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda value: st.lists(value, max_size=3) | st.dictionaries(st.text(max_size=3), value, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        ("", ""),
        ("a b", "a b"),
        (True, "true"),
        (False, "false"),
        (0, "0"),
        (-1.5, "-1.5"),
        ([1, "a", None], '[1,"a",null]'),
        ({"b": {"ü": []}, "a": 1}, '{"b":{"ü":[]},"a":1}'),
    ],
)
def test_a_value_is_looked_at_as_its_text(value: object, text: str) -> None:
    assert text_of(value) == text


@given(json_values)
def test_whatever_is_neither_null_nor_a_text_can_be_read_back_from_its_text(value: object) -> None:
    if value is not None and not isinstance(value, str):
        assert json.loads(text_of(value)) == value


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("a", '{"b":{"c":"deep"},"":"empty"}'),
        ("a.b.c", "deep"),
        ("a.", "empty"),
        ("a.b.c.d", ""),
        ("a.x.c", ""),
        ("x.y", "exact"),
        ("n.m", ""),
        ("list.0", ""),
        ("list", "[1]"),
        ("gone", ""),
        ("gone.too", ""),
        (".", ""),
    ],
)
def test_a_key_finds_the_exact_name_first_and_else_goes_deeper_at_dots(key: str, text: str) -> None:
    header = {
        "a": {"b": {"c": "deep"}, "": "empty"},
        "x.y": "exact",
        "x": {"y": "deeper"},
        "n.m": None,
        "n": {"m": "hidden by the exact null"},
        "list": [1],
    }
    assert reader(key)(header) == text


@given(st.dictionaries(st.text(max_size=4), json_values, max_size=4), st.text(alphabet="ab.", max_size=6))
def test_any_key_finds_a_text_in_any_header(header: dict[str, Any], key: str) -> None:
    assert isinstance(reader(key)(header), str)


@given(st.dictionaries(st.text(max_size=4), json_values, min_size=1, max_size=4), st.data())
def test_every_top_level_key_is_found_whatever_it_looks_like(header: dict[str, Any], data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(sorted(header)))
    assert reader(key)(header) == text_of(header[key])
