from __future__ import annotations

from collections.abc import Callable

import pytest
from flask.testing import FlaskClient

from api import auth
from api.auth import WINDOW_SECONDS, FailureLimit
from pipeline_core.errors import TooManyFailures
from tests.conftest import new_api_app

FAILURES = 60


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def limit(clock: Clock) -> FailureLimit:
    return FailureLimit(FAILURES, clock)


def exhaust(limit: FailureLimit, address: str) -> None:
    for number in range(FAILURES):
        limit.check(address, f"guess {number}")
        limit.refused(address, f"guess {number}")


def test_an_address_is_blocked_after_too_many_failures_until_the_window_has_passed(
    limit: FailureLimit, clock: Clock
) -> None:
    exhaust(limit, "192.0.2.1")
    with pytest.raises(TooManyFailures) as blocked:
        limit.check("192.0.2.1", "another guess")
    assert 0 < blocked.value.retry_after <= WINDOW_SECONDS + 1
    clock.now += blocked.value.retry_after
    limit.check("192.0.2.1", "another guess")


def test_addresses_of_one_ipv6_network_count_as_one(limit: FailureLimit) -> None:
    for number in range(FAILURES):
        limit.refused(f"2001:db8:0:1::{number:x}", f"guess {number}")
    for same in ("2001:db8:0:1:ffff::1", "2001:db8:0:1::1%eth0"):
        with pytest.raises(TooManyFailures):
            limit.check(same, "another guess")
    limit.check("2001:db8:0:2::1", "another guess")
    exhaust(limit, "::ffff:192.0.2.1")
    with pytest.raises(TooManyFailures):
        limit.check("192.0.2.1", "another guess")


def test_other_addresses_are_not_blocked(limit: FailureLimit) -> None:
    exhaust(limit, "192.0.2.1")
    limit.check("192.0.2.2", "a guess")


def test_an_accepted_credential_is_not_blocked_until_it_is_refused(limit: FailureLimit) -> None:
    limit.accepted("the password")
    exhaust(limit, "192.0.2.1")
    limit.check("192.0.2.1", "the password")
    limit.refused("192.0.2.1", "the password")
    with pytest.raises(TooManyFailures):
        limit.check("192.0.2.1", "the password")


def test_the_number_of_cached_addresses_is_bounded(limit: FailureLimit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "MAX_ENTRIES", 10)
    for number in range(50):
        limit.refused(f"192.0.2.{number}", "guess")
        limit.accepted(f"token {number}")
    assert len(limit._refused) == len(limit._accepted) == 10


@pytest.mark.parametrize(
    "headers",
    [
        {"token": "read_job"},
        {"Authorization": "Bearer read_job"},
        {"Authorization": "bearer  read_job "},
        {"token": "read_job", "Authorization": "Bearer nonsense"},
    ],
)
def test_the_token_comes_in_either_header(client: FlaskClient, headers: dict[str, str]) -> None:
    # Past the token, past the privilege: a bad parameter is what is left.
    assert client.get("/v1/job/list?pageSize=0", headers=headers).status_code == 400


@pytest.mark.parametrize(
    "headers",
    [{}, {"token": ""}, {"token": "nonsense"}, {"Authorization": "Basic cmVhZF9qb2I="}, {"Authorization": "Bearer "}],
)
def test_a_request_without_a_valid_token_is_answered_401(client: FlaskClient, headers: dict[str, str]) -> None:
    answer = client.get("/v1/job/list", headers=headers)
    assert (answer.status_code, answer.json["code"]) == (401, "PERMISSION_DENIED")
    assert answer.headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.usefixtures("app")
@pytest.mark.parametrize(("proxies", "address"), [("0", "127.0.0.1"), ("1", "198.51.100.7")])
def test_forwarded_addresses_are_used_only_behind_a_trusted_proxy(
    monkeypatch: pytest.MonkeyPatch, fresh_runtime: Callable[[], None], proxies: str, address: str
) -> None:
    monkeypatch.setenv("PIPELINE_TRUSTED_PROXIES", proxies)
    fresh_runtime()
    client = new_api_app().test_client()
    seen = []
    monkeypatch.setattr(FailureLimit, "check", lambda self, address, credential: seen.append(address))
    client.get("/v1/job/list", headers={"token": "x", "X-Forwarded-For": "203.0.113.9, 198.51.100.7"})
    assert seen == [address]


def test_repeated_invalid_tokens_are_answered_429_and_missing_ones_never(client: FlaskClient) -> None:
    for _ in range(FAILURES + 1):
        assert client.get("/v1/job/list").status_code == 401
    for _ in range(FAILURES):
        assert client.get("/v1/job/list", headers={"token": "guess"}).status_code == 401
    answer = client.get("/v1/job/list", headers={"token": "guess"})
    assert (answer.status_code, answer.json["code"]) == (429, "PERMISSION_DENIED")
    assert int(answer.headers["Retry-After"]) > 0
