from __future__ import annotations

from pipeline_core.validation.texts import header_value, shown, storable


def test_values_are_shown_cut_and_safe_to_print() -> None:
    assert shown("a\ud800") == r'"a\ud800"'
    assert shown("x" * 100) == f'"{"x" * 80}…"'
    assert shown(10**100).endswith("0…")
    assert shown({"a": 1}) == "an object"
    assert shown(None) == "null"


def test_storable_and_sendable_texts() -> None:
    assert storable("große 😀 Worte")
    assert not storable("\x00")
    assert header_value("Bearer a b")
    assert not any(map(header_value, ["", " a", "a ", "a\nb", "ä", "\x7f"]))
