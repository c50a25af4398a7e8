from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from itertools import pairwise

import pytest
from hypothesis import given

from pipeline_cli.drawings import FORMATS, HEIGHT, WIDTH, dot, mermaid, svg
from pipeline_core.flows.notation.dag import Dag
from tests.unit.flows.flow_cases import dags

DIAMOND = Dag.of({"a": [], "b-1": ["a"], "c": ["a"], "d": ["b-1", "c"]})
NAMES = {"a": "a", "b-1": "B_1", "c": "c", "d": "end"}
SVG = "{http://www.w3.org/2000/svg}"


def test_dot_names_each_task_and_each_arrow() -> None:
    assert dot(NAMES, DIAMOND).splitlines() == [
        "digraph {",
        "  node [shape=box];",
        *('  "a" [label="a"];', '  "b-1" [label="B_1"];', '  "c" [label="c"];', '  "d" [label="end"];'),
        *('  "a" -> "b-1";', '  "a" -> "c";', '  "b-1" -> "d";', '  "c" -> "d";'),
        "}",
    ]


def test_mermaid_numbers_the_tasks_and_shows_their_names() -> None:
    assert mermaid(NAMES, DIAMOND).splitlines() == [
        "flowchart TD",
        *('  t0["a"]', '  t1["B_1"]', '  t2["c"]', '  t3["end"]'),
        *("  t0 --> t1", "  t0 --> t2", "  t1 --> t3", "  t2 --> t3"),
    ]


def test_a_picture_has_a_box_for_each_task_and_a_line_for_each_arrow() -> None:
    picture = ElementTree.fromstring(svg({**NAMES, "a": "x" * 54}, DIAMOND))
    assert [text.text for text in picture.iter(f"{SVG}text")] == ["x" * 21 + "…", "B_1", "c", "end"]
    assert next(picture.iter(f"{SVG}title")).text == "x" * 54
    assert len([path for path in picture.iter(f"{SVG}path") if path.get("marker-end")]) == 4


@pytest.mark.parametrize("notation", FORMATS)
def test_a_single_task_can_be_drawn(notation: str) -> None:
    assert "only" in FORMATS[notation]({"only": "only"}, Dag.of({"only": []}))


@given(dags())
def test_no_two_tasks_lie_on_each_other(dag: Dag) -> None:
    picture = ElementTree.fromstring(svg({key: key for key in dag}, dag))
    places = sorted((float(box.get("y", 0)), float(box.get("x", 0))) for box in picture.iter(f"{SVG}rect"))
    assert all(one[0] + HEIGHT <= two[0] or one[1] + WIDTH <= two[1] for one, two in pairwise(places))
    width, height = (float(picture.get(side, 0)) for side in ("width", "height"))
    assert all(0 <= x <= width - WIDTH and 0 <= y <= height - HEIGHT for y, x in places)
