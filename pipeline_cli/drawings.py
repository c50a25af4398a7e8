"""Drawings of a DAG as Graphviz, Mermaid and SVG: pure functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape

from pipeline_core.flows.notation.dag import Dag
from pipeline_core.flows.notation.layout import edges, layers

Drawing = Callable[[Mapping[str, str], Dag], str]

WIDTH, HEIGHT = 180, 36
GAP_ACROSS, GAP_DOWN = 24, 48
MARGIN = 12
SHOWN_LETTERS = 22


def dot(names: Mapping[str, str], dag: Dag) -> str:
    """The DAG in the language of Graphviz. `names` are the tasks' names by key."""
    nodes = [f'  "{key}" [label="{names[key]}"];' for key in dag]
    lines = [f'  "{before}" -> "{key}";' for before, key in edges(dag)]
    return "\n".join(["digraph {", "  node [shape=box];", *nodes, *lines, "}", ""])


def mermaid(names: Mapping[str, str], dag: Dag) -> str:
    """The DAG as a flowchart of Mermaid, which many pages show as a drawing."""
    # Nodes are numbered, since a task's name may be a keyword of Mermaid.
    numbers = {key: f"t{number}" for number, key in enumerate(dag)}
    nodes = [f'  {numbers[key]}["{names[key]}"]' for key in dag]
    lines = [f"  {numbers[before]} --> {numbers[key]}" for before, key in edges(dag)]
    return "\n".join(["flowchart TD", *nodes, *lines, ""])


def svg(names: Mapping[str, str], dag: Dag) -> str:
    """The DAG as an SVG: each task is in the layer below the lowest of those that it depends on."""
    rows = layers(dag)
    widest = max(map(len, rows))
    across, down = WIDTH + GAP_ACROSS, HEIGHT + GAP_DOWN
    width = 2 * MARGIN + widest * across - GAP_ACROSS
    height = 2 * MARGIN + len(rows) * down - GAP_DOWN
    places = {
        key: (width / 2 + (column - len(row) / 2) * across + GAP_ACROSS / 2, MARGIN + level * down)
        for level, row in enumerate(rows)
        for column, key in enumerate(row)
    }
    lines = [_line(places[before], places[key]) for before, key in edges(dag)]
    boxes = [_box(places[key], names[key]) for key in dag]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
            f'height="{height:g}" font-family="sans-serif" font-size="13">',
            '<defs><marker id="arrow" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">'
            '<path d="M0,0 L8,4 L0,8 z" fill="#667"/></marker></defs>',
            *lines,
            *boxes,
            "</svg>",
            "",
        ]
    )


FORMATS: Mapping[str, Drawing] = {"dot": dot, "mermaid": mermaid, "svg": svg}


def _line(start: tuple[float, float], end: tuple[float, float]) -> str:
    (x1, y1), (x2, y2) = start, end
    x1, x2, y1 = x1 + WIDTH / 2, x2 + WIDTH / 2, y1 + HEIGHT
    middle = (y1 + y2) / 2
    curve = f"M{x1:g},{y1:g} C{x1:g},{middle:g} {x2:g},{middle:g} {x2:g},{y2:g}"
    return f'<path d="{curve}" fill="none" stroke="#667" marker-end="url(#arrow)"/>'


def _box(place: tuple[float, float], name: str) -> str:
    x, y = place
    text = name if len(name) <= SHOWN_LETTERS else f"{name[: SHOWN_LETTERS - 1]}…"
    return (
        f'<g><title>{escape(name)}</title><rect x="{x:g}" y="{y:g}" width="{WIDTH}" height="{HEIGHT}" rx="5" '
        f'fill="#eef2f7" stroke="#667"/><text x="{x + WIDTH / 2:g}" y="{y + HEIGHT / 2 + 5:g}" '
        f'text-anchor="middle">{escape(text)}</text></g>'
    )
