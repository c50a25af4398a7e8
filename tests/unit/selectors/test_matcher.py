from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_core.errors import WrongParameter
from pipeline_core.selectors import PRESETS, Condition, ConditionValue, Selector, compile, merge, parse_selector
from pipeline_core.selectors.selector import MAX_CONDITIONS
from pipeline_core.states import FINAL, JobState

DEBUG = {"name": "t", "key": "type", "expect": "debug"}


def parsed(raw: object, *, with_states: bool = False) -> Selector:
    selector = parse_selector(raw, "jobSelector", with_states=with_states)
    assert selector is not None
    return selector


def faults(raw: object, *, with_states: bool = False) -> dict[str, list[str]]:
    with pytest.raises(WrongParameter) as caught:
        parse_selector(raw, "p", with_states=with_states)
    return caught.value.errors


def attempt(do: Callable[[], Selector | None]) -> Selector | WrongParameter | None:
    try:
        return do()
    except WrongParameter as error:
        return error


def test_null_declares_no_selector_and_an_empty_object_an_empty_one() -> None:
    assert parse_selector(None, "jobSelector") is None
    assert parsed({}) == parsed({"conditions": None, "expression": None, "states": None}) == Selector()
    assert parsed({"expression": " \n"}) == Selector()


def test_a_selector_is_given_back_as_it_was_declared() -> None:
    raw = {"conditions": [DEBUG], "expression": " t||t ", "states": ["Running", "completed"]}
    assert parsed(raw, with_states=True).to_json() == raw
    assert parsed({"expression": "*"}).to_json() == {"conditions": [], "expression": "*"}


def test_a_selector_is_an_immutable_value() -> None:
    selector = parsed({"conditions": [DEBUG], "expression": "t"})
    assert hash(selector) == hash(Selector((Condition("t", "type", "debug"),), "t"))
    with pytest.raises(dataclasses.FrozenInstanceError):
        selector.expression = "*"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("raw", "path", "words"),
    [
        (5, "p", "must be an object with conditions, expression, states, not a number"),
        ("*", "p", "not a text"),
        ([], "p", "not a list"),
        (True, "p", "not a boolean"),
        ({"condition": []}, "p.condition", "is no field here"),
        ({"conditions": {}}, "p.conditions", "not an object"),
        ({"conditions": [None]}, "p.conditions[0]", "not null"),
        ({"conditions": [DEBUG, DEBUG]}, "p.conditions[1].name", '"t" is declared twice'),
        ({"conditions": [{**DEBUG, "expected": "x"}]}, "p.conditions[0].expected", "is no field here"),
        ({"conditions": [{**DEBUG, "name": "t t"}]}, "p.conditions[0].name", 'not "t t"'),
        ({"conditions": [{**DEBUG, "name": "t\n"}]}, "p.conditions[0].name", "must be letters"),
        ({"conditions": [{**DEBUG, "name": "ä"}]}, "p.conditions[0].name", "must be letters"),
        ({"conditions": [{**DEBUG, "key": 1}]}, "p.conditions[0].key", "must be a text, not a number"),
        ({"conditions": [{**DEBUG, "expect": None}]}, "p.conditions[0].expect", "is required"),
        ({"conditions": [{**DEBUG, "expect": ""}]}, "p.conditions[0].expect", "write /^$/"),
        ({"conditions": [{**DEBUG, "expect": True}]}, "p.conditions[0].expect", "must be a text, not a boolean"),
        ({"conditions": [{**DEBUG, "expect": "/x/q"}]}, "p.conditions[0].expect", 'flags "q"'),
        ({"conditions": [DEBUG] * (MAX_CONDITIONS + 1)}, "p.conditions", "at most 200 conditions, not 201"),
        ({"expression": ["t"]}, "p.expression", "must be a text, not a list"),
        ({"expression": "t &"}, "p.expression", 'column 3: expected "&&", "||" or the end, found "&"'),
        ({"states": ["running"]}, "p.states", "only the selector of a LifeHook has states"),
    ],
)
def test_what_is_wrong_is_named_with_its_path(raw: object, path: str, words: str) -> None:
    found = faults(raw)
    assert list(found) == [path]
    assert words in found[path][0]


def test_all_faults_are_told_at_once_and_the_message_names_the_first() -> None:
    raw = {"conditions": [{"name": "1", "key": "", "expect": "/("}], "expression": "(", "extra": 1}
    with pytest.raises(WrongParameter) as caught:
        parse_selector(raw, "plugins[3].jobSelector")
    assert set(caught.value.errors) == {
        f"plugins[3].jobSelector.{field}"
        for field in ("extra", "conditions[0].name", "conditions[0].key", "expression")
    }
    assert caught.value.message.startswith("plugins[3].jobSelector.extra: is no field here")
    assert caught.value.message.endswith("(and 3 more)")


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        (None, frozenset(JobState)),
        (["*"], frozenset(JobState)),
        (["running"], {JobState.RUNNING}),
        (["RUNNING", "running"], {JobState.RUNNING}),
        (["preparing", "stopped"], {JobState.WAITING, JobState.STOPPED}),
        (["completed"], FINAL),
    ],
)
def test_states_stand_for_job_states(states: object, expected: set[JobState]) -> None:
    assert parsed({"states": states}, with_states=True).job_states == expected


@pytest.mark.parametrize(
    ("states", "path"),
    [
        ([], "p.states"),
        ("*", "p.states"),
        ({}, "p.states"),
        (["nope"], "p.states[0]"),
        (["running", "*"], "p.states[1]"),
        (["running", 1, []], "p.states[1]"),
        ([None], "p.states[0]"),
    ],
)
def test_an_empty_list_of_states_or_unknown_names_are_refused(states: object, path: str) -> None:
    assert path in faults({"states": states}, with_states=True)


junk: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(alphabet="ab/*&! ", max_size=6),
    lambda value: (
        st.lists(value, max_size=3)
        | st.dictionaries(
            st.sampled_from(["conditions", "expression", "states", "name", "key", "expect", "x"]), value, max_size=4
        )
    ),
    max_leaves=12,
)


@given(junk, st.booleans())
def test_any_json_is_a_selector_or_a_wrong_parameter(raw: object, with_states: bool) -> None:
    result = attempt(lambda: parse_selector(raw, "p", with_states=with_states))
    if isinstance(result, WrongParameter):
        assert result.errors
        assert all(path == "p" or path.startswith("p.") for path in result.errors)
    elif result is not None:
        assert parse_selector(result.to_json(), "p", with_states=with_states) == result


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


@given(selectors)
def test_an_absent_and_an_empty_selector_change_nothing(selector: Selector) -> None:
    assert merged_or_none(selector, None) == merged_or_none(selector, Selector())
    assert merged_or_none(selector, None) in (selector, None)
    assert merged_or_none(None, selector) in (selector, None)


@given(selectors, selectors, headers)
def test_what_is_merged_compiles_and_the_plugin_has_the_last_word(
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


FEATURE, PLUGIN = "jobSelector", "plugins[0].jobSelector"
T = Condition("t", "type", "debug")


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
def test_a_fault_of_the_result_is_named_on_the_side_that_it_comes_from(
    feature: Selector | None, plugin: Selector | None, path: str, words: str
) -> None:
    with pytest.raises(WrongParameter) as caught:
        merge(feature, plugin, PLUGIN, FEATURE)
    assert list(caught.value.errors) == [path]
    assert words in caught.value.errors[path][0]


def test_an_unsound_selector_does_not_compile() -> None:
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


def test_a_condition_is_looked_at_once_and_only_when_it_decides() -> None:
    looked: list[str] = []

    class Header(dict[str, object]):
        def get(self, key: str, default: object = None) -> Any:
            looked.append(key)
            return super().get(key, default)

    selector = Selector((Condition("a", "x", "1"), Condition("b", "y", "1")), "!a && b || a || b && !b")
    assert compile(selector).matches(Header(x="1", y="1")) is True
    assert looked == ["x"]
