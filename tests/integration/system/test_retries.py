"""Retries of replicas and of whole TaskSets."""

from __future__ import annotations

from pathlib import Path

from tests.builders import taskset
from tests.installation import Installation
from tests.waiting import wait_for

TWICE = {"retry": True, "delay": 0, "maxRetryCount": 2}


def failing_until(marks: Path, tries: int) -> str:
    """A script that fails until it has been run so often; each run leaves a line."""
    return f'echo "$TASKROLE_REPLICA_INDEX" >> {marks}; test $(grep -c "^$TASKROLE_REPLICA_INDEX$" {marks}) -ge {tries}'


def test_a_failed_replica_is_retried_and_the_others_are_not(service: Installation, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    script = f'echo "$TASKROLE_REPLICA_INDEX" >> {marks}; test "$TASKROLE_REPLICA_INDEX" = 0 || test $(grep -c 1 {marks}) -ge 3'
    job_id = service.submit(taskset(script, replicas=2, retryPolicy=TWICE))
    job = service.wait_state(job_id, "succeeded", "failed")
    assert (job["state"], job["totalRetriedCount"]) == ("succeeded", 2), job
    assert sorted(marks.read_text().split()) == ["0", "1", "1", "1"]
    (role,) = service.get(f"/v1/job/detail/{job_id}")["tasks"]
    assert [replica["retriedCount"] for replica in role["replicas"]] == [0, 2]
    assert service.events(job_id) == ["waiting", "running", "succeeded"]


def test_a_replica_that_fails_too_often_fails_the_job(service: Installation, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    job_id = service.submit(taskset(failing_until(marks, 9), retryPolicy=TWICE))
    job = service.wait_state(job_id, "succeeded", "failed")
    assert (job["state"], job["totalRetriedCount"], job["exitCode"]) == ("failed", 2, 1)
    assert len(marks.read_text().split()) == 3


def test_a_whole_taskset_is_retried_and_the_job_keeps_running(service: Installation, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    job = taskset(failing_until(marks, 2))
    job["spec"]["retryPolicy"] = {"retry": True, "delay": 1, "maxRetryCount": 1}
    job_id = service.submit(job)
    wait_for(lambda: "Attempt 1 failed" in service.job(job_id)["reason"], "the first attempt to fail")
    assert service.job(job_id)["state"] == "running"
    ended = service.wait_state(job_id, "succeeded", "failed")
    assert (ended["state"], ended["totalRetriedCount"]) == ("succeeded", 1), ended
    assert marks.read_text().split() == ["0", "0"]
    assert service.events(job_id) == ["waiting", "running", "succeeded"]


def test_a_job_that_waits_for_its_next_attempt_is_stopped(service: Installation, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    job = taskset(failing_until(marks, 9))
    job["spec"]["retryPolicy"] = {"retry": True, "delay": 3600, "maxRetryCount": 5}
    job_id = service.submit(job)
    wait_for(lambda: "Attempt 1 failed" in service.job(job_id)["reason"], "the first attempt to fail")
    service.put(f"/v1/job/stop/{job_id}")
    wait_for(lambda: service.job(job_id)["cleanup"] == "done", "the cluster to be cleaned up")
    assert service.events(job_id) == ["waiting", "running", "stopped"]
    assert len(marks.read_text().split()) == 1
