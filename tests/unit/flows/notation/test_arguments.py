from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_core.flows.notation.arguments import (
    TYPES,
    Argument,
    argv,
    check_value,
    fill_defaults,
    read_arguments,
)
from pipeline_core.flows.notation.errors import NotationError
from pipeline_core.validation.errors import ValidationErrors


def arguments(**specs: dict[str, Any]) -> dict[str, Argument]:
    problems = ValidationErrors()
    read = read_arguments({"group": {f"--{name}": spec for name, spec in specs.items()}}, problems, "args")
    problems.raise_any()
    return read


GOOD = [
    ({"type": "int"}, 3),
    ({"type": "int"}, "-3"),
    ({"type": "int", "range": "0,366"}, 365),
    ({"type": "int", "range": ",5"}, -99),
    ({"type": "float", "range": "0,1"}, "0.05"),
    ({"type": "float"}, 1e-7),
    ({"type": "str"}, 3),
    ({"type": "str", "regex": "^[0-9]*$"}, "12"),
    ({"type": "enum", "choice": ["a", 2]}, "2"),
    ({"type": "multiple", "choice": ["a", "b"]}, "a, b"),
    ({"type": "multiple", "choice": ["a", "b"]}, ["b"]),
    ({"type": "list", "item_type": "int", "range": "0,9"}, "1,2"),
    ({"type": "list"}, [{"a": 1}, [2]]),
    ({"type": "list", "sub_args": {"a": {"type": "int"}}}, [{"a": 1}]),
    ({"type": "dict"}, '{"a": 1}'),
    ({"type": "dict", "sub_args": {"a": {"type": "int"}}}, {"a": 1}),
    ({"type": "json"}, [1, {"a": None}]),
    ({"type": "json"}, "3"),
    ({"type": "date"}, "2026-02-28"),
    ({"type": "datetime"}, "2026-02-28T00:00:00"),
    ({"type": "file"}, "/x"),
    ({"type": "bool"}, False),
    ({"require": 0}, ""),
    ({"require": 0}, None),
]


BAD = [
    ({"type": "int"}, 3.0),
    ({"type": "int"}, True),
    ({"type": "int"}, "1_000"),
    ({"type": "int"}, "٣"),
    ({"type": "int", "range": "0,366"}, 366),
    ({"type": "int", "range": "0,366"}, "-1"),
    ({"type": "float"}, "nan"),
    ({"type": "float"}, []),
    ({"type": "float", "range": "0,1"}, 1),
    ({"type": "str"}, True),
    ({"type": "str"}, {}),
    ({"type": "str", "regex": "^[0-9]*$"}, "1\n"),
    ({"type": "enum", "choice": ["a"]}, "b"),
    ({"type": "str", "choice": ["a"]}, "b"),
    ({"type": "multiple", "choice": ["a", "b"]}, "a,c"),
    ({"type": "multiple"}, [["a"]]),
    ({"type": "multiple"}, 3),
    ({"type": "list", "item_type": "int"}, "1,x"),
    ({"type": "list", "sub_args": {"a": {"type": "int"}}}, [{"b": 1}]),
    ({"type": "list", "sub_args": {"a": {"type": "int"}}}, [{}]),
    ({"type": "dict"}, "[1]"),
    ({"type": "dict"}, "{"),
    ({"type": "dict"}, []),
    ({"type": "json"}, "{"),
    ({"type": "json"}, "NaN"),
    ({"type": "dict"}, '{"a": -Infinity}'),
    ({"type": "date"}, "2026-02-30"),
    ({"type": "datetime"}, "2026-02-28"),
    ({"type": "bool"}, "yes"),
    ({"type": "bool"}, 1),
    ({}, ""),
    ({}, None),
]


@pytest.mark.parametrize(("spec", "value"), GOOD)
def test_values_that_fit_are_passed(spec: dict[str, Any], value: Any) -> None:
    assert check_value(arguments(a=spec)["--a"], value) == (value or (None if value in ("", None) else value))


@pytest.mark.parametrize(("spec", "value"), BAD)
def test_values_that_do_not_fit_are_refused(spec: dict[str, Any], value: Any) -> None:
    with pytest.raises(NotationError):
        check_value(arguments(a=spec)["--a"], value)


def test_every_type_has_a_value_that_fits() -> None:
    assert {spec.get("type", "str") for spec, _ in GOOD} | {"text"} == set(TYPES)


def test_missing_arguments_take_their_defaults_and_unknown_ones_are_told() -> None:
    specs = arguments(a={"default": "x"}, b={"default": "y", "editable": 0}, c={})
    assert fill_defaults(specs, {"--a": None, "--b": "y"}) == ({"--a": "x", "--b": "y", "--c": None}, {})
    _, problems = fill_defaults(specs, {"--b": "z", "--d": 1})
    assert {name: text.split(";")[0] for name, text in problems.items()} == {
        "--b": 'may not be changed from the template\'s "y"',
        "--d": "is no argument of the template",
    }


def test_argv_has_the_words_in_the_templates_order() -> None:
    values = {
        "--zero": 0,
        "--rate": 0.05,
        "--yes": True,
        "--no": False,
        "--none": None,
        "--empty": "",
        "--text": "a,b c",
        "--list": ["x", 1, True],
        "--dict": {"键": "值"},
        "--objects": [{"a": 1}],
    }
    assert argv(values) == [
        *("--zero", "0", "--rate", "0.05", "--yes", "--text", "a,b c", "--list", "x,1,true"),
        *("--dict", '{"键": "值"}', "--objects", '[{"a": 1}]'),
    ]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from(sorted(TYPES)), JSON)
def test_any_value_of_any_type_is_passed_as_words_or_refused(kind: str, value: Any) -> None:
    try:
        fitting = check_value(Argument(name="-a", type=kind), value)
    except NotationError:
        return
    assert all(isinstance(word, str) for word in argv({"-a": fitting}))
