from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_core.common.strict_json import MAX_DEPTH, NotStrict, parse

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda children: st.lists(children) | st.dictionaries(TEXTS, children),
    max_leaves=20,
)


@given(DOCUMENTS, st.booleans())
def test_any_strict_json_is_read_as_it_was_written(document: Any, ascii_only: bool) -> None:
    assert parse(json.dumps(document, ensure_ascii=ascii_only).encode()) == document


@given(st.binary() | st.text('[]{}",:\\u0d8e-+.NaInfity \n').map(str.encode))
def test_any_bytes_are_refused_or_a_document_that_can_be_written_again(body: bytes) -> None:
    with suppress(NotStrict):
        json.dumps(parse(body), ensure_ascii=False, allow_nan=False).encode()


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "not JSON"),
        (b"{} {}", "not JSON: Extra data"),
        (b"{'a': 1}", r"not JSON: .*line 1, column 2"),
        (b"\xef\xbb\xbf{}", "not JSON"),
        ('{"a": "ä"}'.encode("latin-1"), "not UTF-8: byte 7"),
        ("{}".encode("utf-16"), "not UTF-8"),
        (b"NaN", "has NaN, which is not a number"),
        (b'{"a": [-Infinity]}', "has -Infinity, which is not a number"),
        (b"[1e999]", "the number 1e999, which is too large"),
        (b"1" * 5000, "a number with more digits"),
        (b'{"a": 1, "b": 2, "a": 3}', 'the key "a" twice'),
        (b'[{"x": {"a": 1, "\\u0061": 1}}]', 'the key "a" twice'),
        (b'{"' + b"k" * 10_000 + b'": 1, "' + b"k" * 10_000 + b'": 1}', "twice"),
        (b'["\\u0000"]', "NUL"),
        (b'{"a\\u0000": 1}', "NUL"),
        (b'["\\ud800"]', "unpaired surrogate"),
        (b"[" * 100_000 + b"]" * 100_000, "levels deep"),
        (b'{"a":' * (MAX_DEPTH + 1) + b"1" + b"}" * (MAX_DEPTH + 1), "levels deep"),
    ],
)
def test_what_is_not_strict_json_is_refused_with_its_reason(body: bytes, words: str) -> None:
    with pytest.raises(NotStrict, match=words) as caught:
        parse(body)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("body", [b"[" * MAX_DEPTH + b"]" * MAX_DEPTH, b"[" * MAX_DEPTH + b"1" + b"]" * MAX_DEPTH])
def test_a_document_may_be_as_deep_as_the_limit(body: bytes) -> None:
    parse(body)


def test_a_surrogate_pair_is_a_character() -> None:
    assert parse(b'"\\ud83d\\ude00"') == "😀"
