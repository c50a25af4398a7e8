"""Jobs that the cluster cannot serve are skipped, and the others are not affected."""

from __future__ import annotations

import pytest

from pipeline_core.clusters.base import ClusterUnavailable
from workers.each_job import MAX_FAILURES, for_each_job

JOBS = [f"j{number}" for number in range(40)]


def test_the_callback_is_called_for_each_job() -> None:
    seen: list[str] = []
    assert for_each_job(JOBS, seen.append) == len(JOBS)
    assert sorted(seen) == sorted(JOBS)


def test_a_job_whose_cluster_is_unavailable_is_skipped() -> None:
    seen = []

    def callback(job_id: str) -> None:
        if job_id == "j0":
            raise ClusterUnavailable("its namespace is closed")
        seen.append(job_id)

    for_each_job(JOBS, callback)
    assert sorted(seen) == sorted(JOBS[1:])


@pytest.mark.parametrize(("jobs", "calls"), [(JOBS, MAX_FAILURES), (JOBS[:1], 1)])
def test_an_unavailable_cluster_ends_the_loop_after_a_few_failures(jobs: list[str], calls: int) -> None:
    seen = []

    def callback(job_id: str) -> None:
        seen.append(job_id)
        raise ClusterUnavailable("nobody answers")

    with pytest.raises(ClusterUnavailable, match="nobody answers"):
        for_each_job(jobs, callback)
    assert len(seen) == calls


def test_no_jobs_is_fine() -> None:
    assert for_each_job([], print) == 0


def test_other_errors_are_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        for_each_job(JOBS, lambda _: 1 / 0)
