"""Backup and restore of a data directory, by the commands of the page."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.builders import taskset
from tests.pages import Page
from tests.servers import own_process_ids
from tests.waiting import HANG_SECONDS, wait_for

PROGRAM = "from pipeline_cli import main; main(prog_name='pipeline')"


class Up:
    """One run of `pipeline up` on the directory `data` of the present directory."""

    def __init__(self, directory: Path) -> None:
        self.printed = directory / "printed"
        with self.printed.open("w") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, "up", "--port=0", "--data-dir=data"],
                cwd=directory,
                stdout=output,
                stderr=output,
                env={name: value for name, value in os.environ.items() if not name.startswith("PIPELINE_")},
                start_new_session=True,
            )
        self.url: str = wait_for(self._url, "the service", progress=self.printed.read_text)

    def _url(self) -> str | None:
        text = self.printed.read_text()
        found = re.search(r"answers at (http://\S+)\. ", text)
        assert found or self.process.poll() is None, text
        return found[1] if found else None

    def ask(self, path: str, body: Any = None) -> Any:
        request = urllib.request.Request(
            self.url + path,
            data=None if body is None else json.dumps(body).encode(),
            headers={"token": "admin", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=HANG_SECONDS) as answer:
            return json.load(answer)["payload"]

    def detail(self, job_id: str) -> tuple[str, str, int]:
        """The job's state, the process of its only replica, and how often it was retried."""
        found = self.ask(f"/v1/job/detail/{job_id}")
        return (
            found["job"]["state"],
            found["tasks"][0]["replicas"][0]["containerID"],
            found["job"]["totalRetriedCount"],
        )

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(HANG_SECONDS) == 0, self.printed.read_text()


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    for pid in own_process_ids(tmp_path):
        os.kill(pid, signal.SIGKILL)


def commands() -> list[str]:
    """The commands of the page, without those that start the service."""
    lines = re.findall(r"^    (.*)$", Page("backup.md").section("## `pipeline up`"), re.M)
    return [line for line in lines if not line.startswith("pipeline ")]


def test_a_job_that_runs_goes_on_after_a_restore_as_the_page_has_it(directory: Path) -> None:
    backup, delete, unpack, _ = commands()
    end = directory / "end"
    job = taskset(f"until [ -e {end} ]; do sleep 0.1; done")
    run = Up(directory)
    body = {"userID": "ann", "jobName": "long", "jobKind": "TaskSet", "job": job}
    job_id = run.ask("/v1/job", body)["jobID"]
    wait_for(lambda: run.ask(f"/v1/job/detail/{job_id}")["job"]["state"] == "running", "the job to run")
    before = run.detail(job_id)
    run.stop()
    subprocess.run(["bash", "-ec", backup], cwd=directory, check=True)

    run = Up(directory)
    later = run.ask("/v1/job", {**body, "jobName": "later"})["jobID"]
    run.stop()
    subprocess.run(["bash", "-ec", f"{delete}\n{unpack}"], cwd=directory, check=True)

    run = Up(directory)
    assert [job["jobID"] for job in run.ask("/v1/job/list")] == [job_id], later
    assert run.detail(job_id) == before
    end.touch()
    wait_for(lambda: run.detail(job_id)[0] == "succeeded", "the job to succeed")
    assert run.detail(job_id)[1:] == before[1:]
    run.stop()
