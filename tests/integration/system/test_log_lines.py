"""What the processes themselves log: each job, with its ID and that of the request that it came by."""

from __future__ import annotations

import json
from typing import Any

from tests.builders import taskset
from tests.installation import Installation
from tests.waiting import wait_for


def lines(service: Installation, process: str, **fields: Any) -> list[dict[str, Any]]:
    """The lines of a kind of process that have these fields."""
    found = []
    for name in service.services:
        if name.startswith(process):
            for line in service.log(name).splitlines():
                parsed = json.loads(line) if line.startswith("{") else {}
                if fields.items() <= parsed.items():
                    found.append(parsed)
    return found


def submit(service: Installation, request_id: str, command: str) -> str:
    body = {"userID": "u1", "jobName": "logged", "jobKind": "TaskSet", "job": taskset(command)}
    answer = service.ask("POST", "/v1/job", body, **{"X-Request-ID": request_id})
    return str(answer.json()["payload"]["jobID"])


def test_a_job_without_plugins_leaves_lines_in_the_logs_of_api_worker_and_watcher(service: Installation) -> None:
    job_id = submit(service, "request-of-a-plain-job", "sleep 0.5")
    service.wait_state(job_id, "succeeded")
    about: dict[str, Any] = {"job_id": job_id, "request_id": "request-of-a-plain-job", "level": "info"}
    (submitted,) = lines(service, "api", **about, event="job submitted")
    assert (submitted["user_id"], submitted["kind"], submitted["stage"]) == ("u1", "TaskSet", "launch")
    wait_for(lambda: lines(service, "stage", **about, event="job launched"))
    wait_for(
        lambda: lines(service, "background", **about, thread="watcher", event="job state changed", state="succeeded")
    )
    changes = lines(service, "", **about, event="job state changed")
    assert sorted(line["state"] for line in changes) == ["running", "succeeded"]


def test_a_request_that_is_refused_leaves_a_line_that_quotes_nothing_of_its_body(service: Installation) -> None:
    answer = service.ask("POST", "/v1/job", {"userID": "u1", "secret": "hush"}, **{"X-Request-ID": "refused-request"})
    assert answer.status_code == 400
    (line,) = lines(service, "api", request_id="refused-request")
    assert (line["event"], line["status"], line["method"], line["path"]) == ("request refused", 400, "POST", "/v1/job")
    assert "secret" in line["fields"]
    assert "hush" not in json.dumps(line)


def test_a_stop_is_logged_with_the_request_that_asked_for_it(service: Installation) -> None:
    job_id = submit(service, "request-of-a-long-job", "sleep 300")
    service.wait_state(job_id, "running")
    service.ask("PUT", f"/v1/job/stop/{job_id}", **{"X-Request-ID": "request-to-stop"})
    (line,) = lines(service, "api", job_id=job_id, event="job state changed")
    assert (line["request_id"], line["state"], line["previous"]) == ("request-to-stop", "stopped", "running")
    answer = service.ask("PUT", f"/v1/job/resume/{job_id}", **{"X-Request-ID": "request-to-resume"})
    assert answer.status_code == 409
    (refused,) = lines(service, "api", request_id="request-to-resume", job_id=job_id)
    assert (refused["event"], refused["code"]) == ("request refused", "UNSUPPORTED_OPERATION")
    assert "stopped" in refused["reason"]
