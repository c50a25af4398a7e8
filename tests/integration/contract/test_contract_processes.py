"""What one process of the API decides, every other one knows at once; and of many at once, one wins."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import requests

from tests.installation import Installation
from tests.waiting import HANG_SECONDS

MANY = 20
JOB = {"userID": "ada", "jobName": "n", "jobKind": "K", "job": {"kind": "K"}}


def at_once(ask: Callable[[int], requests.Response]) -> list[requests.Response]:
    """Answers to requests on connections of their own, so that both processes are asked."""
    with ThreadPoolExecutor(MANY) as pool:
        return list(pool.map(ask, range(MANY)))


def statuses(api: Installation, token: str, path: str = "/v1/job/count") -> set[int]:
    """How a token is answered, wherever it is asked about."""
    return {
        answer.status_code
        for answer in at_once(
            lambda _: requests.get(f"{api.url}{path}", headers={"token": token}, timeout=HANG_SECONDS)
        )
    }


def test_a_revoked_token_is_unknown_at_once_in_every_process(api: Installation) -> None:
    made = api.post("/v1/tokens", {"privileges": ["read_job"], "forwho": "ada"})
    assert statuses(api, made["token"]) == {200}
    assert api.ask("DELETE", "/v1/tokens", {"token": made["token"]}).status_code == 200
    assert statuses(api, made["token"]) == {401}


def test_changed_privileges_count_at_once_in_every_process(api: Installation) -> None:
    made = api.post("/v1/tokens", {"privileges": ["read_job"], "forwho": "ada"})
    assert statuses(api, made["token"]) == {200}
    api.put("/v1/tokens/normal", {"id": made["id"], "privileges": ["read_token"]})
    assert statuses(api, made["token"]) == {403}
    assert statuses(api, made["token"], "/v1/tokens") == {200}


def test_a_changed_password_ends_the_old_one_at_once_in_every_process(api: Installation) -> None:
    old, new = api.password, "another password"
    assert statuses(api, old) == {200}
    api.put("/v1/tokens/admin", {"token": new})
    api.password = new
    assert statuses(api, old) == {401}
    assert statuses(api, new) == {200}


def test_of_many_submissions_with_one_idempotency_key_there_is_one_job(api: Installation) -> None:
    before = api.get("/v1/job/count")["count"]
    headers = {"token": api.password, "Idempotency-Key": "all-at-once"}
    answers = at_once(lambda _: requests.post(f"{api.url}/v1/job", json=JOB, headers=headers, timeout=HANG_SECONDS))
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.json()["payload"]["jobID"] for answer in answers}) == 1
    assert api.get("/v1/job/count")["count"] == before + 1


def test_of_many_bodies_with_one_idempotency_key_one_is_taken(api: Installation) -> None:
    headers = {"token": api.password, "Idempotency-Key": "each-its-own"}
    answers = at_once(
        lambda number: requests.post(
            f"{api.url}/v1/job", json={**JOB, "jobName": f"n{number}"}, headers=headers, timeout=HANG_SECONDS
        )
    )
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * (MANY - 1)


def test_of_many_registrations_of_one_feature_none_fails(api: Installation) -> None:
    plugin = {"pluginType": "LifeHook", "callAddress": "http://127.0.0.1:9/"}
    body = {"name": "contested", "author": "tests", "plugins": [plugin]}
    headers = {"token": api.password}
    answers = at_once(
        lambda _: requests.post(f"{api.url}/v1/features", json=body, headers=headers, timeout=HANG_SECONDS)
    )
    assert {answer.status_code for answer in answers} == {200}
    assert len(api.get("/v1/features/detail/contested")["plugins"]) == 1
    assert api.ask("DELETE", "/v1/features/contested").status_code == 200
