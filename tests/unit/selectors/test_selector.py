"""A plugin's selector merged with its feature's."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_core.errors import WrongParameter
from pipeline_core.selectors import Condition, Selector, compile, merge


def attempt(do: Callable[[], Selector | None]) -> Selector | WrongParameter | None:
    try:
        return do()
    except WrongParameter as error:
        return error


conditions = st.lists(
    st.builds(Condition, st.sampled_from("abc"), st.sampled_from(["x", "y", "userID"]), st.sampled_from(["1", "2"])),
    max_size=3,
    unique_by=lambda condition: condition.name,
).map(tuple)


selectors = st.builds(Selector, conditions, st.sampled_from(["", "*", "a", "!b", "a && b", "a || !b && c", "userID"]))


headers = st.dictionaries(st.sampled_from(["x", "y", "userID"]), st.sampled_from(["", "1", "2"]))


def merged_or_none(feature: Selector | None, plugin: Selector | None) -> Selector | None:
    result = attempt(lambda: merge(feature, plugin))
    return None if isinstance(result, WrongParameter) else result


FEATURE, PLUGIN = "jobSelector", "plugins[0].jobSelector"


T = Condition("t", "type", "debug")


@given(selectors)
def test_an_absent_and_an_empty_selector_change_nothing(selector: Selector) -> None:
    assert merged_or_none(selector, None) == merged_or_none(selector, Selector())
    assert merged_or_none(selector, None) in (selector, None)
    assert merged_or_none(None, selector) in (selector, None)


@given(selectors, selectors, headers)
def test_a_merged_selector_compiles_and_the_plugin_has_precedence(
    feature: Selector, plugin: Selector, header: dict[str, str]
) -> None:
    merged = merged_or_none(feature, plugin)
    if merged is None:
        return
    assert set(plugin.conditions) <= set(merged.conditions) <= {*plugin.conditions, *feature.conditions}
    assert len({condition.name for condition in merged.conditions}) == len(merged.conditions)
    assert {condition.name for condition in merged.conditions} >= {condition.name for condition in feature.conditions}
    assert merged.expression == (plugin.expression or feature.expression)
    matcher = compile(merged)
    assert matcher.matches(header) is matcher.explain(header).matched
    assert merge(merged, None) == merged


def test_states_are_the_plugins_own() -> None:
    assert merge(Selector(expression="*"), Selector(states=("running",))) == Selector((), "*", ("running",))
    assert merge(Selector(expression="*"), None).states is None


def test_more_conditions_than_allowed_together_are_refused() -> None:
    def many(letter: str) -> Selector:
        return Selector(tuple(Condition(f"{letter}{n}", "k", "v") for n in range(101)), "*")

    with pytest.raises(WrongParameter, match="at most 200 conditions"):
        merge(many("f"), many("p"))


@pytest.mark.parametrize(
    ("feature", "plugin", "path", "words"),
    [
        (Selector((), "u"), None, f"{FEATURE}.expression", "column 1: expected a declared condition or one of userID,"),
        (Selector((), "*"), Selector((), "!u"), f"{PLUGIN}.expression", "column 2: expected a declared condition"),
        (Selector((T,)), None, f"{FEATURE}.expression", "conditions need an expression"),
        (None, Selector((T,)), f"{PLUGIN}.expression", "conditions need an expression"),
        (Selector((), "userID"), Selector((T,)), f"{PLUGIN}.conditions[0]", 'not used by the expression "userID"'),
        (Selector((T,), "*"), Selector((T,), "userID"), f"{PLUGIN}.conditions[0]", '"t" is declared here but not used'),
        (Selector((), "userID &"), None, f"{FEATURE}.expression", "column 8"),
    ],
)
def test_an_error_of_the_merged_selector_names_the_side_that_it_comes_from(
    feature: Selector | None, plugin: Selector | None, path: str, words: str
) -> None:
    with pytest.raises(WrongParameter) as caught:
        merge(feature, plugin, PLUGIN, FEATURE)
    assert list(caught.value.errors) == [path]
    assert words in caught.value.errors[path][0]
