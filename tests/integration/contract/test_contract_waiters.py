"""Requests that wait for events, at both processes of the API: others are served meanwhile, and nothing is missed or doubled."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import requests

from tests.installation import Installation
from tests.waiting import HANG_SECONDS, wait_for

WAITERS = 90
"""More than the threads that both processes have for other requests."""
JOB = {"userID": "ada", "jobName": "n", "jobKind": "K", "job": {"kind": "K"}}


def ask(api: Installation, **query: Any) -> requests.Response:
    """On a connection of its own, so that both processes are asked."""
    answer = requests.get(f"{api.url}/v1/events", params=query, headers={"token": api.password}, timeout=HANG_SECONDS)
    assert answer.status_code == 200, answer.text
    return answer


def test_those_that_wait_hold_up_nobody_and_are_answered_together(api: Installation) -> None:
    start = ask(api, after="latest").headers["X-Next-Cursor"]
    with ThreadPoolExecutor(WAITERS) as pool:
        waiting: list[Future[requests.Response]] = [pool.submit(ask, api, after=start, wait=25) for _ in range(WAITERS)]
        wait_for(lambda: pool._work_queue.empty(), "all requests to be sent")
        for _ in range(20):
            assert api.ask("GET", "/v1/job/count").status_code == 200
        # Some may have found all places of one process taken: one owner has half of them.
        assert not [each for each in waiting if each.done() and "X-Waiters-Full" not in each.result().headers]
        job_id = api.post("/v1/job", JOB)["jobID"]
        answers = [each.result(HANG_SECONDS) for each in waiting]
    waited = [answer for answer in answers if "X-Waiters-Full" not in answer.headers]
    assert len(waited) > WAITERS // 2
    assert {event["jobID"] for answer in waited for event in answer.json()["payload"]} == {job_id}
    assert all(len(answer.json()["payload"]) == 1 for answer in waited)


def test_a_reader_that_goes_on_from_process_to_process_is_given_each_event_once(api: Installation) -> None:
    start = int(ask(api, after="latest").headers["X-Next-Cursor"])

    def follow(limit: int) -> list[str]:
        found: list[str] = []
        after = start
        while len(found) < 40:
            answer = ask(api, after=after, wait=25, limit=limit, kind="state")
            found += [event["jobID"] for event in answer.json()["payload"]]
            after = int(answer.headers["X-Next-Cursor"])
        return found

    with ThreadPoolExecutor(12) as pool:
        readers = [pool.submit(follow, limit) for limit in (1, 2, 7, 100, 1000)]
        submitting = [pool.submit(api.ask, "POST", "/v1/job", JOB) for _ in range(40)]
        jobs = {each.result(HANG_SECONDS).json()["payload"]["jobID"] for each in submitting}
        found = [reader.result(HANG_SECONDS) for reader in readers]
    assert all(sorted(one) == sorted(jobs) for one in found)
    assert all(one == found[0] for one in found)
