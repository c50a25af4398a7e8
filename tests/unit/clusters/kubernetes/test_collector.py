"""How pods are made to hand over what their containers leave, and how that is read."""

from __future__ import annotations

import base64
import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_core.clusters.kubernetes.collector import COLLECTOR, PREPARER, equip, leaves_output, printed_metrics
from pipeline_core.clusters.kubernetes.pod_view import PodView
from tests.unit.clusters.kubernetes.pods import NOW, make

STAMP = b"2026-03-01T12:00:00.000000001Z "


def template(*containers: dict[str, Any], sidecars: str = "", **spec: Any) -> dict[str, Any]:
    metadata = {"metadata": {"annotations": {"pipeline/sidecars": sidecars}}} if sidecars else {}
    return {**metadata, "spec": {"containers": [{"image": "x", **one} for one in containers], **spec}}


def equipped(*containers: dict[str, Any], image: str = "collector:1", **fields: Any) -> Any:
    found = template(*containers, **fields)
    equip(found, image)
    return found


def test_without_an_image_only_the_output_is_asked_for() -> None:
    assert equipped({"name": "a"}, image="") == template({"name": "a", "terminationMessagePath": "/output"})


def test_each_container_that_counts_has_a_file_of_its_own() -> None:
    found = equipped(
        {"name": "a"}, {"name": "side"}, {"name": "b"}, sidecars='["side"]', initContainers=[{"name": "i"}]
    )
    spec = found["spec"]
    assert [one["name"] for one in spec["initContainers"]] == [PREPARER, "i"]
    assert [one["name"] for one in spec["containers"]] == ["a", "side", "b", COLLECTOR]
    assert json.loads(found["metadata"]["annotations"]["pipeline/sidecars"]) == ["side", COLLECTOR]
    for one in spec["containers"]:
        counts = one["name"] in "ab"
        assert leaves_output(found, one["name"]) is counts
        paths = [mount.get("subPath") for mount in one.get("volumeMounts", []) if mount["mountPath"] == "/metric.json"]
        assert paths == ([one["name"]] if counts else [])
    for helper in (spec["initContainers"][0], spec["containers"][-1]):
        assert helper["command"][-2:] == ["/collected/a", "/collected/b"]
        assert "$(" not in helper["command"][2]


@pytest.mark.parametrize(("own", "given"), [(0, 5), (60, 60)])
def test_a_collector_has_time_to_hand_over(own: int, given: int) -> None:
    assert equipped({"name": "a"}, terminationGracePeriodSeconds=own)["spec"]["terminationGracePeriodSeconds"] == given


def test_a_collector_never_counts_even_where_all_others_are_marked() -> None:
    found = equipped({"name": "a"}, sidecars='["a"]')
    assert json.loads(found["metadata"]["annotations"]["pipeline/sidecars"]) == [COLLECTOR]


@pytest.mark.parametrize("path", ["/output", "/output/", "/output/deep", "//output"])
def test_a_volume_at_the_place_of_the_output_keeps_it(path: str) -> None:
    found = equipped({"name": "a", "volumeMounts": [{"name": "v", "mountPath": path}]})
    assert not leaves_output(found, "a")
    assert found["spec"]["containers"][-1]["name"] == COLLECTOR


def test_a_container_keeps_its_own_message_and_its_own_metrics() -> None:
    own = {"name": "a", "terminationMessagePath": "/mine", "volumeMounts": [{"name": "v", "mountPath": "/metric.json"}]}
    assert equipped(copy.deepcopy(own)) == template(own)


@given(st.binary(max_size=300), st.data())
def test_what_was_printed_is_read_whole_or_not_at_all(data: bytes, draw: st.DataObject) -> None:
    lines = [STAMP + text for text in [*base64.encodebytes(data).splitlines(), b"end"]]
    assert printed_metrics(lines) == data
    assert printed_metrics(lines[: draw.draw(st.integers(0, len(lines) - 1))]) is None


@pytest.mark.parametrize("lines", [[STAMP + b"*", STAMP + b"end"], [STAMP + b"QQ==", STAMP + b"QQ==", STAMP + b"end"]])
def test_what_no_collector_prints_is_not_taken(lines: list[bytes]) -> None:
    assert printed_metrics(lines) is None


def test_a_log_without_end_is_given_up() -> None:
    assert printed_metrics(STAMP + b"QQ" for _ in iter(int, 1)) is None


def test_the_logs_of_our_own_containers_are_not_the_users() -> None:
    view = PodView(
        {**make("Running"), **equipped({"name": "a"}, {"name": "b"}), "metadata": make("Running")["metadata"]}, NOW
    )
    assert [one.name for one in view.logged] == ["a", "b"]
    assert len(view.containers) == 4
