"""How results of replicas are parsed and stored."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline_core.clusters.base import ReplicaResult
from pipeline_core.jobs.results import row
from pipeline_core.taskset.results import MAX_METRICS, MAX_OUTPUT


def kept(**fields: Any) -> dict[str, Any]:
    found = row("j1", ReplicaResult("worker", 2, 1, **fields))
    assert (found.pop("job_id"), found.pop("role"), found.pop("index")) == ("j1", "worker", 2)
    assert found.pop("collected_at").utcoffset() is not None
    return found


def test_output_and_metrics_are_read() -> None:
    assert kept(output=b"a\n", metrics=b'{"series": []}') == {
        "output": "a",
        "metrics": [{"metric_type": "echart", "option": {"series": []}}],
        "problem": "",
        "metrics_problem": "",
        "unknown": False,
    }


@pytest.mark.parametrize(
    ("output", "problem"), [(b"x" * (MAX_OUTPUT + 1), "more than 4096 bytes"), (b"\xff", "UTF-8"), (b"\0", "NUL")]
)
def test_an_invalid_output_is_a_problem_and_does_not_affect_the_metrics(output: bytes, problem: str) -> None:
    found = kept(output=output, metrics=b"[]")
    assert (found["output"], found["metrics"], found["metrics_problem"]) == (None, [], "")
    assert problem in found["problem"]


@pytest.mark.parametrize(
    ("metrics", "problem"), [(b"[" + b" " * MAX_METRICS + b"]", "more than 1048576 bytes"), (b"{", "is not JSON")]
)
def test_invalid_metrics_are_a_problem_and_do_not_affect_the_output(metrics: bytes, problem: str) -> None:
    found = kept(output=b"a", metrics=metrics)
    assert (found["output"], found["metrics"], found["problem"]) == ("a", None, "")
    assert problem in found["metrics_problem"]


def test_problems_that_the_cluster_reports_are_kept() -> None:
    found = kept(output_problem="gone", metrics_problem="gone too", unknown=True)
    assert (found["problem"], found["metrics_problem"], found["unknown"]) == ("gone", "gone too", True)
