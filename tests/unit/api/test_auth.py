from __future__ import annotations

from collections.abc import Callable

import pytest
from flask.testing import FlaskClient

from api.failure_limit import FailureLimit
from tests.conftest import new_api_app
from tests.unit.api.test_failure_limit import FAILURES


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
