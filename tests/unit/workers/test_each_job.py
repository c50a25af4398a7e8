"""Jobs that cannot be had do not keep others from their turn."""

from __future__ import annotations

import pytest

from pipeline_core.clusters.base import ClusterUnavailable
from workers.each_job import MISSES, for_each_job

JOBS = [f"j{number}" for number in range(40)]


def test_each_job_has_its_turn() -> None:
    seen: list[str] = []
    assert for_each_job(JOBS, seen.append) == len(JOBS)
    assert sorted(seen) == sorted(JOBS)


def test_one_that_is_away_does_not_keep_the_others_from_theirs() -> None:
    seen = []

    def act(job_id: str) -> None:
        if job_id == "j0":
            raise ClusterUnavailable("its namespace is closed")
        seen.append(job_id)

    for_each_job(JOBS, act)
    assert sorted(seen) == sorted(JOBS[1:])


@pytest.mark.parametrize(("jobs", "asked"), [(JOBS, MISSES), (JOBS[:1], 1)])
def test_a_cluster_that_is_away_is_not_asked_for_each_of_them(jobs: list[str], asked: int) -> None:
    seen = []

    def act(job_id: str) -> None:
        seen.append(job_id)
        raise ClusterUnavailable("nobody answers")

    with pytest.raises(ClusterUnavailable, match="nobody answers"):
        for_each_job(jobs, act)
    assert len(seen) == asked


def test_no_job_is_no_trouble() -> None:
    assert for_each_job([], print) == 0


def test_other_errors_are_told() -> None:
    with pytest.raises(ZeroDivisionError):
        for_each_job(JOBS, lambda _: 1 / 0)
