from __future__ import annotations

import json
import re
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from pipeline_core.errors import WrongParameter
from pipeline_core.selectors import compile, merge, parse_expression, parse_selector

ROOT = Path(__file__).parents[3]
WRONG = "WRONG_PARAM"


def outcome(feature: object, plugin: object, header: dict[str, Any]) -> bool | str:
    """What comes of registering the two selectors and asking for a job with this header."""
    try:
        selector = merge(parse_selector(feature, "jobSelector"), parse_selector(plugin, "plugins[0].jobSelector"))
    except WrongParameter as error:
        return error.code.value if error.errors else "an error without paths"
    matcher = compile(selector)
    result = matcher.matches(header)
    assert matcher.explain(header).matched is result
    return result


def cases(name: str) -> list[Any]:
    rows = json.loads((ROOT / "tests" / "cases" / name).read_text())
    return [pytest.param(row, id=row["why"]) for row in rows]


@pytest.mark.parametrize("row", cases("selectors.json"))
def test_a_selector_of_the_table_has_its_outcome_on_either_side(row: dict[str, Any]) -> None:
    expected = row.get("error", row.get("match"))
    assert outcome(row["selector"], None, row.get("header", {})) == expected
    assert outcome(None, row["selector"], row.get("header", {})) == expected


@pytest.mark.parametrize("row", cases("selector-merging.json"))
def test_two_selectors_of_the_table_have_their_outcome(row: dict[str, Any]) -> None:
    assert outcome(row["feature"], row["plugin"], row.get("header", {})) == row.get("error", row.get("match"))


def documented(*columns: str) -> list[list[str]]:
    """The rows of the table with these columns in the documentation, without Markdown's marks."""
    lines = iter((ROOT / "docs" / "selectors.md").read_text().splitlines())
    head = f"| {' | '.join(columns)} |"
    assert head in lines, f"the documentation has no table {head}"
    next(lines)
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in takewhile(lambda line: line.startswith("|"), lines)]
    return [[cell.strip().removeprefix("`").removesuffix("`").replace("\\|", "|") for cell in row] for row in rows]


WORDS = {"yes": True, "no": False, WRONG: WRONG}


@pytest.mark.parametrize(
    ("conditions", "expression", "header", "word"), documented("conditions", "expression", "header", "matches")
)
def test_each_documented_example_is_true(conditions: str, expression: str, header: str, word: str) -> None:
    selector = {"conditions": json.loads(conditions), "expression": expression}
    assert outcome(selector, None, json.loads(header)) == WORDS[word]


@pytest.mark.parametrize(("feature", "plugin", "header", "word"), documented("feature", "plugin", "header", "matches"))
def test_each_documented_merge_is_true(feature: str, plugin: str, header: str, word: str) -> None:
    assert outcome(json.loads(feature), json.loads(plugin), json.loads(header)) == WORDS[word]


@pytest.mark.parametrize(("expression", "error"), documented("expression", "error"))
def test_each_documented_error_is_what_is_said(expression: str, error: str) -> None:
    with pytest.raises(WrongParameter) as caught:
        parse_expression(expression)
    assert caught.value.message == error
