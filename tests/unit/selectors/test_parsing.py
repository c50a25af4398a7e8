"""Selectors from JSON, and what is refused."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_core.errors import WrongParameter
from pipeline_core.selectors import Condition, Selector, parse_selector
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


conditions = st.lists(
    st.builds(Condition, st.sampled_from("abc"), st.sampled_from(["x", "y", "userID"]), st.sampled_from(["1", "2"])),
    max_size=3,
    unique_by=lambda condition: condition.name,
).map(tuple)


T = Condition("t", "type", "debug")


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


def test_all_errors_are_reported_at_once_and_the_message_names_the_first() -> None:
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


@given(junk, st.booleans())
def test_any_json_is_a_selector_or_a_wrong_parameter(raw: object, with_states: bool) -> None:
    result = attempt(lambda: parse_selector(raw, "p", with_states=with_states))
    if isinstance(result, WrongParameter):
        assert result.errors
        assert all(path == "p" or path.startswith("p.") for path in result.errors)
    elif result is not None:
        assert parse_selector(result.to_json(), "p", with_states=with_states) == result
