"""What a compiled selector matches, and its explanation."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st

from pipeline_core.errors import WrongParameter
from pipeline_core.selectors import PRESETS, Condition, ConditionValue, Selector, compile

conditions = st.lists(
    st.builds(Condition, st.sampled_from("abc"), st.sampled_from(["x", "y", "userID"]), st.sampled_from(["1", "2"])),
    max_size=3,
    unique_by=lambda condition: condition.name,
).map(tuple)


T = Condition("t", "type", "debug")


def test_an_invalid_selector_does_not_compile() -> None:
    with pytest.raises(WrongParameter):
        compile(Selector((T,)))
    with pytest.raises(WrongParameter):
        compile(Selector((), "t"))


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_by_its_bare_name_holds_when_it_is_not_empty(preset: str) -> None:
    matcher = compile(Selector((), preset))
    assert matcher.matches({preset: "x"}) is True
    assert matcher.matches({preset: ""}) is matcher.matches({}) is False


def test_an_explanation_shows_every_condition_and_the_presets_in_use() -> None:
    selector = Selector((T, Condition("unused", "user.level", "/[0-9]/")), "!t || userID")
    explanation = compile(selector).explain({"type": "debug", "user": {"level": 3}, "userID": "ann"})
    assert explanation.conditions == (
        ConditionValue("t", "type", "debug", "debug", True),
        ConditionValue("unused", "user.level", "/[0-9]/", "3", True),
        ConditionValue("userID", "userID", None, "ann", True),
    )
    assert explanation.matched is True
    assert explanation.to_json() == {
        "expression": "!t || userID",
        "conditions": [
            {"name": "t", "key": "type", "expect": "debug", "found": "debug", "matched": True},
            {"name": "unused", "key": "user.level", "expect": "/[0-9]/", "found": "3", "matched": True},
            {"name": "userID", "key": "userID", "expect": None, "found": "ann", "matched": True},
        ],
        "matched": True,
    }


def test_a_condition_is_evaluated_once_and_only_if_it_decides() -> None:
    looked: list[str] = []

    class Header(dict[str, object]):
        def get(self, key: str, default: object = None) -> Any:
            looked.append(key)
            return super().get(key, default)

    selector = Selector((Condition("a", "x", "1"), Condition("b", "y", "1")), "!a && b || a || b && !b")
    assert compile(selector).matches(Header(x="1", y="1")) is True
    assert looked == ["x"]
