from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_core.errors import WrongParameter
from pipeline_core.selectors.expression import (
    MAX_DEPTH,
    MAX_LENGTH,
    And,
    Everything,
    Expression,
    ExpressionError,
    Name,
    Not,
    Or,
    names,
    parse_expression,
)

LETTERS = "abcd"
SPACE = st.sampled_from(["", " ", "\t", "\n  "])

trees: st.SearchStrategy[Any] = st.recursive(
    st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,5}", fullmatch=True).map(Name),
    lambda tree: st.one_of(
        tree.map(Not),
        st.lists(tree, min_size=2, max_size=4).map(lambda operands: And(tuple(operands))),
        st.lists(tree, min_size=2, max_size=4).map(lambda operands: Or(tuple(operands))),
    ),
    max_leaves=30,
)


def _grown(part: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    def joined(ours: str, pythons: str) -> st.SearchStrategy[Any]:
        return st.builds(
            lambda left, before, after, right: (
                f"{left[0]}{before}{ours}{after}{right[0]}",
                f"{left[1]} {pythons} {right[1]}",
            ),
            part,
            SPACE,
            SPACE,
            part,
        )

    return st.one_of(
        joined("&&", "and"),
        joined("||", "or"),
        st.builds(lambda inner, space: (f"({space}{inner[0]})", f"({inner[1]})"), part, SPACE),
        st.builds(lambda inner, space: (f"!{space}{inner[0]}", f"not {inner[1]}"), part, SPACE),
    )


# Joined without parentheses, so that both languages' own precedence gives them their meaning.
pairs = st.recursive(st.sampled_from(LETTERS).map(lambda name: (name, name)), _grown, max_leaves=25)


@given(pairs, st.fixed_dictionaries({name: st.booleans() for name in LETTERS}))
def test_an_expression_means_what_and_or_not_mean_in_python(pair: tuple[str, str], values: dict[str, bool]) -> None:
    ours, pythons = pair
    expected = eval(pythons, {"__builtins__": {}}, values)  # noqa: S307 -- our own four names and three operators
    assert parse_expression(ours).holds(values.__getitem__) is expected


@given(trees)
def test_a_printed_tree_parses_to_the_same_tree(tree: Expression) -> None:
    assert parse_expression(str(tree)) == tree


@given(trees, st.data())
def test_no_pair_of_printed_parentheses_can_be_left_out(tree: Expression, data: st.DataObject) -> None:
    text = str(tree)
    openings = [position for position, sign in enumerate(text) if sign == "("]
    if not openings:
        return
    start = data.draw(st.sampled_from(openings))
    depth = 0
    for end in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        if depth == 0:
            break
    assert parse_expression(text[:start] + text[start + 1 : end] + text[end + 1 :]) != tree


def parsed_or_error(text: str) -> Expression | ExpressionError:
    try:
        return parse_expression(text)
    except ExpressionError as error:
        return error


@given(st.one_of(st.text(), st.text(alphabet="ab &|!()*-\n", max_size=60)))
def test_any_text_is_an_expression_or_an_error_within_it(text: str) -> None:
    result = parsed_or_error(text)
    if isinstance(result, ExpressionError):
        assert 1 <= result.column <= len(text) + 1
        assert result.message.startswith(f"column {result.column}: ")
    else:
        assert parse_expression(str(result)) == result


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("((a))", "a"),
        ("a&&(b&&c)", "a && b && c"),
        ("(a || b) || c", "a || b || c"),
        ("(a && b) || c", "a && b || c"),
        ("a && (b || c)", "a && (b || c)"),
        ("!(!(a))", "!!a"),
        ("! ( a||b )", "!(a || b)"),
        (" * ", "*"),
    ],
)
def test_it_is_printed_with_as_few_parentheses_as_possible(text: str, printed: str) -> None:
    assert str(parse_expression(text)) == printed


def test_operands_are_evaluated_left_to_right_until_the_result_is_known() -> None:
    asked: list[str] = []

    def value(name: str) -> bool:
        asked.append(name)
        return name == "b"

    assert parse_expression("a && x || b || y").holds(value) is True
    assert asked == ["a", "b"]


def test_names_come_in_their_order_with_their_columns() -> None:
    found = [(name.name, name.column) for name in names(parse_expression("!b && (a || b)"))]
    assert found == [("b", 2), ("a", 8), ("b", 13)]


def test_the_star_has_no_names_and_always_holds() -> None:
    tree = parse_expression("*")
    assert tree == Everything()
    assert list(names(tree)) == []
    assert tree.holds(lambda name: False)


def test_an_operator_needs_two_operands() -> None:
    with pytest.raises(ValueError, match="two operands"):
        And((Name("a"),))


def nested(opening: str, closing: str, levels: int) -> str:
    return opening * levels + "a" + closing * levels


NESTS = [("(", ")"), ("!", ""), ("!(", ")"), ("a || b && (", ")")]


@pytest.mark.parametrize(("opening", "closing"), NESTS)
def test_a_hundred_levels_are_walked_even_when_the_stack_is_half_full(opening: str, closing: str) -> None:
    levels = MAX_DEPTH // sum(opening.count(sign) for sign in "(!")

    def walk() -> None:
        tree = parse_expression(nested(opening, closing, levels))
        assert parse_expression(str(tree)).holds(lambda name: name != "a") is False

    def deeper(frames: int, do: Callable[[], None]) -> None:
        deeper(frames - 1, do) if frames else do()

    deeper(sys.getrecursionlimit() // 2 - len(inspect.stack()), walk)


@pytest.mark.parametrize(("opening", "closing"), NESTS)
@pytest.mark.parametrize("levels", [101, 300])
def test_more_than_a_hundred_levels_are_refused(opening: str, closing: str, levels: int) -> None:
    with pytest.raises(WrongParameter, match="at most 100 levels"):
        parse_expression(nested(opening, closing, levels))


def test_only_what_is_open_at_once_counts_as_a_level() -> None:
    assert isinstance(parse_expression(" && ".join(["!(a)"] * (MAX_DEPTH + 1))), And)


def test_the_longest_expression_is_taken_and_one_character_more_is_refused() -> None:
    longest = "a" + "&&a" * ((MAX_LENGTH - 1) // 3)
    longest += " " * (MAX_LENGTH - len(longest))
    assert isinstance(parse_expression(longest), And)
    with pytest.raises(WrongParameter, match="at most 4,000 characters, not 4,001"):
        parse_expression(longest + " ")
