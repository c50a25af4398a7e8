"""Where the tasks of a DAG are drawn: in layers, ordered so that few arrows cross; thousands of tasks in groups.

Pure and without coordinates: who draws decides what a layer and a place in it are on a screen.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, takewhile
from typing import Any

from pipeline_core.flows.notation.dag import Dag

SWEEPS = 4
"""How often the order is improved downwards and upwards, as long as that removes crossings."""

Layers = list[list[str]]
Neighbours = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Layout:
    """The nodes of a drawing in `layers`, each in its order, and the `edges` between nodes. A node is a task, by its key, or one
    of the `groups`: tasks that are drawn as one, by the group's key. An edge that stays within a group is left out."""

    layers: Layers
    edges: Sequence[tuple[str, str]]
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def to_json(self, names: Mapping[str, str], labels: Mapping[str, str]) -> dict[str, Any]:
        """The layout for the API, with the names and the labels of tasks by key."""
        return {
            "layers": [[self._node(key, names, labels) for key in layer] for layer in self.layers],
            "edges": [[self._name(key, names) for key in edge] for edge in self.edges],
            "tasks": len(names),
        }

    def _name(self, key: str, names: Mapping[str, str]) -> str:
        return key if key in self.groups else names[key]

    def _node(self, key: str, names: Mapping[str, str], labels: Mapping[str, str]) -> dict[str, Any]:
        if key not in self.groups:
            return {"name": names[key], "label": labels.get(key, ""), "tasks": []}
        members = [names[task] for task in self.groups[key]]
        return {"name": key, "label": f"{_common_beginning(members)}… ({len(members)})", "tasks": members}


def _common_beginning(texts: Sequence[str]) -> str:
    first, last = min(texts), max(texts)
    return "".join(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False)))


def layout(dag: Dag, most: int | None = None) -> Layout:
    """The layout of a DAG. With more tasks than `most`, tasks are grouped so that there are at most about so many nodes."""
    return _layout(tuple(dag.upstream.items()), most)


@lru_cache(maxsize=16)
def _layout(upstream_of: tuple[tuple[str, tuple[str, ...]], ...], most: int | None) -> Layout:
    # The layout of a large flow takes a second, and is asked for again and again while a run of it is watched.
    dag = Dag(dict(upstream_of))
    if most is None or len(dag) <= most:
        return Layout(layers(dag), edges(dag))
    groups = _groups(dag, most)
    node_of = {task: key for key, members in groups.items() for task in members}
    upstream: dict[str, dict[str, None]] = {key: {} for key in groups}
    for before, task in edges(dag):
        if node_of[before] != node_of[task]:
            upstream[node_of[task]][node_of[before]] = None
    grouped = Dag.of({key: tuple(before) for key, before in upstream.items()})
    several = {key: members for key, members in groups.items() if len(members) > 1}
    return Layout(layers(grouped), edges(grouped), several)


def edges(dag: Dag) -> list[tuple[str, str]]:
    """Pairs of a task and one that depends on it."""
    return [(before, key) for key, upstream in dag.upstream.items() for before in upstream]


def layers(dag: Dag) -> Layers:
    """The tasks by the length of the longest path to them. Within a layer they stand in an order in which few edges cross, as
    sweeps find it that put each task at the mean place of its neighbours, downwards and upwards."""
    rows = _by_depth(dag)
    upstream: Neighbours = dag.upstream
    downstream: dict[str, list[str]] = defaultdict(list)
    for before, key in edges(dag):
        downstream[before].append(key)
    places: dict[str, float] = {}
    for row in rows:
        _place(row, places)
    _sweep(rows, upstream, places)
    best, fewest = [list(row) for row in rows], crossings(rows, upstream)
    for _ in range(SWEEPS):
        if not fewest:
            break
        _sweep(rows[::-1], downstream, places)
        _sweep(rows, upstream, places)
        count = crossings(rows, upstream)
        if count >= fewest:
            break
        best, fewest = [list(row) for row in rows], count
    return best


def crossings(rows: Layers, upstream: Neighbours) -> int:
    """How many pairs of edges cross that lead from the same layer to the same layer."""
    at = {key: (depth, place) for depth, row in enumerate(rows) for place, key in enumerate(row)}
    between: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for key, before in upstream.items():
        depth, place = at[key]
        for other in before:
            above, column = at[other]
            between[above, depth].append((column, place))
    return sum(map(_inversions, between.values()))


def _inversions(pairs: list[tuple[int, int]]) -> int:
    seen: list[int] = []
    count = 0
    for _, place in sorted(pairs):
        count += len(seen) - bisect_right(seen, place)
        insort(seen, place)
    return count


def _by_depth(dag: Dag) -> Layers:
    depth: dict[str, int] = {}
    rows: Layers = []
    for key in dag:
        depth[key] = 1 + max((depth[before] for before in dag.upstream[key]), default=-1)
        if depth[key] == len(rows):
            rows.append([])
        rows[depth[key]].append(key)
    return rows


def _sweep(rows: Iterable[list[str]], neighbours: Neighbours, places: dict[str, float]) -> None:
    """Sort each row by the mean place of the neighbours of its tasks; those without neighbours stay about where they are."""
    for row in rows:
        means = {key: _mean([places[other] for other in neighbours.get(key, ())], places[key]) for key in row}
        row.sort(key=means.__getitem__)
        _place(row, places)


def _place(row: Sequence[str], places: dict[str, float]) -> None:
    middle = (len(row) - 1) / 2
    for index, key in enumerate(row):
        places[key] = index - middle


def _mean(numbers: Sequence[float], otherwise: float) -> float:
    return sum(numbers) / len(numbers) if numbers else otherwise


def _groups(dag: Dag, most: int) -> dict[str, tuple[str, ...]]:
    """At most about `most` groups of tasks, by key; a task alone has its own key.

    First those are grouped that have the same neighbours. If these are too many, neighbouring layers are joined, and of each as
    many parts are made as it has of the tasks. Tasks of a group are in the same layers, so that groups have no cycle.
    """
    downstream: dict[str, list[str]] = defaultdict(list)
    for before, key in edges(dag):
        downstream[before].append(key)
    alike: dict[tuple[frozenset[str], frozenset[str]], list[str]] = defaultdict(list)
    for key in dag:
        alike[frozenset(dag.upstream[key]), frozenset(downstream[key])].append(key)
    parts = list(alike.values()) if len(alike) <= most else _bands(layers(dag), most)
    return {_group_key(number, part): tuple(part) for number, part in enumerate(parts, 1)}


def _group_key(number: int, part: Sequence[str]) -> str:
    # No task has a key that begins with a digit.
    return part[0] if len(part) == 1 else f"{number}-group"


def _bands(rows: Layers, most: int) -> Layers:
    """Parts of the rows, `most` at most: neighbouring rows together where there are more rows, and parts of long ones."""
    height = -(-len(rows) // most)
    bands = [list(chain(*rows[index : index + height])) for index in range(0, len(rows), height)]
    total = sum(map(len, bands))
    spare = most - len(bands)
    parts: Layers = []
    for band in bands:
        count = min(len(band), 1 + spare * len(band) // total)
        size = -(-len(band) // count)
        parts += [band[index : index + size] for index in range(0, len(band), size)]
    return parts
