"""Layers of DAGs, their order, and groups."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from pipeline_core.flows.notation.dag import Dag
from pipeline_core.flows.notation.layout import (
    Layout,
    _by_depth,
    _place,
    _sweep,
    crossings,
    edges,
    layers,
    layout,
)
from tests.unit.flows.flow_cases import dags


def large(tasks: int, arrows: int, width: int) -> Dag:
    """A DAG of so many tasks in layers of about `width`, most of whose edges lead to the layer below."""
    chosen = random.Random(7)
    upstream: dict[str, list[str]] = {}
    for number in range(tasks):
        first = max(0, number // width * width - 2 * width)
        last = number // width * width
        count = min(arrows // tasks, last - first)
        upstream[f"t{number}"] = [f"t{other}" for other in chosen.sample(range(first, last), count)] if count else []
    return Dag.of(upstream)


def level_of(found: Layout) -> dict[str, int]:
    return {key: level for level, row in enumerate(found.layers) for key in row}


@given(dags())
def test_each_task_is_once_in_a_layer_below_those_that_it_waits_for(dag: Dag) -> None:
    found = layout(dag)
    level = level_of(found)
    assert sorted(key for row in found.layers for key in row) == sorted(dag)
    assert all(level[before] < level[key] for before, key in found.edges)
    assert all(level[key] == 0 or level[key] - 1 in {level[before] for before in dag.upstream[key]} for key in dag)


def test_two_lines_side_by_side_do_not_cross() -> None:
    dag = Dag.of({"a": [], "b": [], "c": [], "y": ["b"], "x": ["a"], "z": ["c"], "r": ["z"], "q": ["y"], "p": ["x"]})
    found = layers(dag)
    assert crossings(found, dag.upstream) == 0


@given(dags())
def test_the_sweeps_leave_no_more_crossings_than_one_sweep_downwards(dag: Dag) -> None:
    before = _by_depth(dag)
    places: dict[str, float] = {}
    for row in before:
        _place(row, places)
    _sweep(before, dag.upstream, places)
    assert crossings(layers(dag), dag.upstream) <= crossings(before, dag.upstream)


@given(dags())
def test_crossings_are_the_pairs_of_edges_that_cross(dag: Dag) -> None:
    rows = layers(dag)
    at = {key: (level, place) for level, row in enumerate(rows) for place, key in enumerate(row)}
    drawn = [(at[before], at[key]) for before, key in edges(dag)]
    wanted = sum(
        (one[0][1] - other[0][1]) * (one[1][1] - other[1][1]) < 0
        for index, one in enumerate(drawn)
        for other in drawn[:index]
        if (one[0][0], one[1][0]) == (other[0][0], other[1][0])
    )
    assert crossings(rows, dag.upstream) == wanted


@given(dags(), st.integers(1, 15))
def test_groups_have_each_task_once_and_no_cycle(dag: Dag, most: int) -> None:
    found = layout(dag, most)
    nodes = [key for row in found.layers for key in row]
    members = [task for node in nodes for task in found.groups.get(node, (node,))]
    assert sorted(members) == sorted(dag)
    assert len(nodes) <= most
    level = level_of(found)
    node_of = {task: node for node in nodes for task in found.groups.get(node, (node,))}
    assert all(level[before] < level[node] for before, node in found.edges)
    assert set(found.edges) == {
        (node_of[before], node_of[key]) for before, key in edges(dag) if node_of[before] != node_of[key]
    }


def test_tasks_with_the_same_neighbours_are_one_group() -> None:
    many = {f"train-{number}": ["load"] for number in range(50)}
    dag = Dag.of({"load": [], **many, "report": [*many]})
    found = layout(dag, 10)
    (group,) = found.groups
    assert found.layers == [["load"], [group], ["report"]]
    names = {key: key for key in dag}
    node = found.to_json(names, {})["layers"][1][0]
    assert (node["label"], len(node["tasks"])) == ("train-… (50)", 50)
    assert found.to_json(names, {})["edges"] == [["load", group], [group, "report"]]


def test_a_long_chain_is_grouped_too() -> None:
    dag = Dag.of({f"t{n}": [f"t{n - 1}"] if n else [] for n in range(1000)})
    assert [len(row) for row in layout(dag, 100).layers] == [1] * 100


def test_each_of_five_thousand_tasks_with_fifty_thousand_edges_has_its_place() -> None:
    dag = large(5_000, 50_000, 200)
    assert len(edges(dag)) > 45_000
    found = layout(dag, 300)
    assert len(found.groups) > 0
    assert sum(len(found.groups.get(key, (key,))) for row in found.layers for key in row) == 5_000
