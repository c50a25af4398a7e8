"""Jobs on the local cluster while the service, their supervisors, or the machine die."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from pipeline_core.clusters.local.files import AttemptFiles
from pipeline_core.clusters.local.journal import Journal, boot_id
from tests.builders import taskset
from tests.installation import Installation
from tests.waiting import wait_for

RETRY = {"retry": True, "delay": 0, "maxRetryCount": 1}


def attempt_of(service: Installation, job_id: str) -> AttemptFiles:
    return AttemptFiles(str(Path(service.environment["PIPELINE_DATA_DIR"]) / "cluster" / "jobs" / job_id / "0"))


def kill_supervisor(files: AttemptFiles) -> None:
    """Kill the supervisor with all its processes, so that no exit status is recorded."""
    (fields,) = Journal.read(files.at("journal")).attempts.values()
    with open(f"/proc/{fields['keeper']}/stat") as stat:
        supervisor = int(stat.read().rpartition(")")[2].split()[1])
    for pid in (supervisor, fields["keeper"]):
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not files.held(), "the supervisor to be gone")


def running_job(service: Installation, starts: Path, go: Path, **policies: Any) -> str:
    """A job that leaves a line in `starts` when it starts and ends when `go` is there; once it runs."""
    job = taskset(f"echo start >> {starts}; until test -e {go}; do sleep 0.05; done")
    for place, policy in policies.items():
        (job["spec"] if place == "taskset" else job["spec"]["roles"][0])["retryPolicy"] = policy
    job_id = service.submit(job)
    service.wait_state(job_id, "running")
    wait_for(starts.exists, "the replica to start")
    return job_id


def test_a_job_goes_on_while_all_of_the_service_is_dead(service: Installation, tmp_path: Path) -> None:
    starts, go = tmp_path / "starts", tmp_path / "go"
    job_id = running_job(service, starts, go)
    (fields,) = Journal.read(attempt_of(service, job_id).at("journal")).attempts.values()
    service.stop()
    assert attempt_of(service, job_id).held()
    assert Path(f"/proc/{fields['pid']}").exists()
    service.start()
    wait_for(lambda: service.ask("GET", "/readyz").status_code == 200, "the API")
    assert service.job(job_id)["state"] == "running"
    go.touch()
    assert service.wait_state(job_id, "succeeded", "failed")["state"] == "succeeded"
    assert starts.read_text() == "start\n"


def test_a_job_that_ended_while_the_service_was_dead_is_known_to_have_ended(
    service: Installation, tmp_path: Path
) -> None:
    starts, go = tmp_path / "starts", tmp_path / "go"
    job_id = running_job(service, starts, go)
    service.stop()
    go.touch()
    wait_for(lambda: not attempt_of(service, job_id).held(), "the replica to end")
    service.start()
    wait_for(lambda: service.ask("GET", "/readyz").status_code == 200, "the API")
    assert service.wait_state(job_id, "succeeded", "failed")["state"] == "succeeded"


def test_lost_replicas_are_retried_where_a_policy_allows_it(service: Installation, tmp_path: Path) -> None:
    go = tmp_path / "go"
    cases = [(reason, place) for reason in ("SupervisorLost", "HostRestarted") for place in ("role", "taskset", "none")]
    starts = {case: tmp_path / "-".join(case) for case in cases}
    jobs = {
        case: running_job(service, starts[case], go, **({} if case[1] == "none" else {case[1]: RETRY}))
        for case in cases
    }
    service.stop()
    for (reason, _), job_id in jobs.items():
        files = attempt_of(service, job_id)
        kill_supervisor(files)
        if reason == "HostRestarted":
            journal = Path(files.at("journal"))
            journal.write_text(journal.read_text().replace(boot_id(), "an-earlier-boot"))
    go.touch()
    service.start()
    wait_for(lambda: service.ask("GET", "/readyz").status_code == 200, "the API")
    for (reason, place), job_id in jobs.items():
        job = service.wait_state(job_id, "succeeded", "failed")
        if place == "none":
            assert (job["state"], reason in job["reason"]) == ("failed", True), job["reason"]
        else:
            assert job["state"] == "succeeded", job["reason"]
        assert starts[reason, place].read_text() == "start\n" * (1 if place == "none" else 2)
