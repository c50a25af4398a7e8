"""Reading logs through all processes between a replica and its reader."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import requests

from tests.builders import taskset
from tests.installation import Installation
from tests.waiting import HANG_SECONDS, wait_for

FOLLOWERS = 2 * 16
"""As many log followers as all processes of the API serve."""


def follow(service: Installation, job_id: str, query: str = "") -> requests.Response:
    """A connection that follows a log, after its response headers were received."""
    headers = {"token": service.password}
    url = f"{service.url}/v1/job/logs/{job_id}?follow=true{query}"
    return requests.get(url, headers=headers, stream=True, timeout=HANG_SECONDS)


def lines(answer: requests.Response) -> Iterator[str]:
    return (line.decode() for line in answer.iter_lines(chunk_size=1))


def test_a_follower_may_come_before_the_launch_and_stays_over_retries(service: Installation) -> None:
    script = "echo hello; sleep 1; exit 3"
    job = taskset(script, retryPolicy={"retry": True, "delay": 0.5, "maxRetryCount": 1})
    job["spec"]["retryPolicy"] = {"retry": True, "delay": 0.5, "maxRetryCount": 1}
    job_id = service.submit(job)
    with follow(service, job_id) as answer:
        assert list(lines(answer)) == ["hello"] * 4
    assert service.job(job_id)["state"] == "failed"
    for attempt in range(4):
        assert service.ask("GET", f"/v1/job/logs/{job_id}?attempt={attempt}").text == "hello\n"
    answer = service.ask("GET", f"/v1/job/logs/{job_id}?attempt=4")
    assert (answer.status_code, answer.json()["msg"]) == (404, "There is no attempt 4: the last is 3.")


def test_readers_of_a_silent_log_that_leave_give_their_places_back(service: Installation) -> None:
    job_id = service.submit(taskset("echo hello; sleep 300"))
    service.wait_state(job_id, "running")
    # A generator that nobody keeps closes its connection.
    read: list[Iterator[str]] = []
    with ExitStack() as followers:
        for _ in range(FOLLOWERS * 4):
            answer = followers.enter_context(follow(service, job_id))
            if answer.status_code == 503:
                break
            read.append(lines(answer))
            assert next(read[-1]) == "hello"
        assert answer.status_code == 503, "the places are taken"

    def free() -> bool:
        with ExitStack() as followers:
            answers = [followers.enter_context(follow(service, job_id)) for _ in range(4)]
            return all(answer.status_code == 200 for answer in answers)

    wait_for(free, "the places to be free")
    service.put(f"/v1/job/stop/{job_id}")


def test_a_follower_ends_when_the_job_is_stopped(service: Installation) -> None:
    job_id = service.submit(taskset("echo hello; sleep 300"))
    with follow(service, job_id) as answer:
        came = lines(answer)
        assert next(came) == "hello"
        service.put(f"/v1/job/stop/{job_id}")
        assert list(came) == []


def test_a_prompt_is_shown_before_its_line_has_ended(service: Installation) -> None:
    job_id = service.submit(taskset("echo begun; printf '\\r3/150'; sleep 300"))
    with follow(service, job_id) as answer:
        shown = b""
        for chunk in answer.iter_content(1):
            shown += chunk
            if shown.endswith(b"150"):
                break
    assert shown == b"begun\n\r3/150"
    service.put(f"/v1/job/stop/{job_id}")
    service.wait_state(job_id, "stopped")
    wait_for(lambda: service.ask("GET", f"/v1/job/logs/{job_id}").text == "begun\n\r3/150\n")
