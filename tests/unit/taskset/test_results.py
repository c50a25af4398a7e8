from __future__ import annotations

import json
from typing import Any

import pytest

from pipeline_core.taskset.results import MAX_METRICS, MAX_OUTPUT, METRICS, InvalidResult, read_metrics, read_output


@pytest.mark.parametrize(
    ("raw", "text"),
    [(b"", ""), (b"a\n", "a"), (b"a\n\n", "a\n"), ("日\r\n".encode(), "日\r"), (b"x" * MAX_OUTPUT, "x" * MAX_OUTPUT)],
)
def test_the_output_is_the_text_without_one_newline(raw: bytes, text: str) -> None:
    assert read_output(raw) == text


@pytest.mark.parametrize("raw", [b"x" * (MAX_OUTPUT + 1), b"\xff", b"\0"])
def test_an_output_that_cannot_be_handed_on_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidResult, match="/output"):
        read_output(raw)


@pytest.mark.parametrize(
    ("document", "metrics"),
    [
        ([], []),
        ({"metric_type": "text", "describe": "auc", "text": "0.8"}, None),
        ([{"metric_type": "image", "image": "/a.png"}, {"metric_type": "table", "file_path": "/a.csv"}], None),
        ({"metric_type": "echart", "option": {"series": []}}, None),
        ([{"series": []}], [{"metric_type": "echart", "option": {"series": []}}]),
    ],
)
def test_metrics_are_a_list_or_a_single_object(document: Any, metrics: Any) -> None:
    right = metrics if metrics is not None else document if isinstance(document, list) else [document]
    assert read_metrics(json.dumps(document).encode()) == right


@pytest.mark.parametrize(
    "raw", [b"", b"1", b"[1]", b'{"metric_type": "odd"}', b'{"metric_type": []}', b"[" + b" " * MAX_METRICS + b"]"]
)
def test_what_is_no_metric_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidResult, match=r"/metric\.json"):
        read_metrics(raw)


@pytest.mark.parametrize("kind", METRICS)
def test_each_type_needs_its_field(kind: str) -> None:
    with pytest.raises(InvalidResult, match=f"which is a {kind}"):
        read_metrics(json.dumps({"metric_type": kind}).encode())
