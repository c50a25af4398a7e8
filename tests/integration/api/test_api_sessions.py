"""Signing in with a browser."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from api.blueprint import LIMIT
from api.failure_limit import FailureLimit
from pipeline_core.auth import browser_sessions
from pipeline_core.auth.privileges import Privilege
from pipeline_core.common.clock import now
from pipeline_core.database import transaction
from pipeline_core.operations import retention
from tests.integration.api.conftest import Client

OWN = {"X-Pipeline-Console": "1", "Sec-Fetch-Site": "same-origin"}


class Browser:
    """A client with cookies and no token."""

    def __init__(self, app: Flask) -> None:
        self.client: FlaskClient = app.test_client()

    def sign_in(self, token: str, **headers: str) -> TestResponse:
        return self.client.post("/v1/session", json={"token": token}, headers={**OWN, **headers})

    def status(self, method: str = "GET", path: str = "/v1/whoami", **options: Any) -> int:
        return self.client.open(path, method=method, **{"headers": OWN, **options}).status_code


@pytest.fixture
def browser(app: Flask) -> Browser:
    return Browser(app)


class Clock:
    def __init__(self) -> None:
        self.passed = timedelta()

    def now(self) -> datetime:
        return now() + self.passed


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(browser_sessions, "now", clock.now)
    return clock


def test_a_browser_is_who_signed_in(browser: Browser, bearer: Callable[..., Client]) -> None:
    ada = bearer(Privilege.READ_JOB, forwho="ada", own_only=True)
    assert browser.status() == 401
    signed_in = browser.sign_in(ada.token)
    assert signed_in.status_code == 200
    assert signed_in.json is not None
    assert signed_in.json["payload"] == browser.client.get("/v1/whoami").get_json()["payload"]
    assert signed_in.json["payload"]["forwho"] == "ada"
    assert signed_in.json["payload"]["ownOnly"] is True
    assert browser.status("PUT", "/v1/job/stop/j1") == 403


def test_nothing_stored_is_the_cookies_value(app: Flask, browser: Browser) -> None:
    browser.sign_in("admin")
    cookie = browser.client.get_cookie("pipeline_session")
    assert cookie is not None
    with transaction() as session:
        stored = session.execute(browser_sessions._SESSIONS.select()).one()
    assert cookie.value not in str(tuple(stored))


def test_a_header_token_goes_before_the_cookie(browser: Browser, bearer: Callable[..., Client]) -> None:
    browser.sign_in("admin")
    ada = bearer(Privilege.READ_JOB)
    answer = browser.client.get("/v1/whoami", headers={"token": ada.token})
    assert answer.get_json()["payload"]["forwho"] == "ada"


def test_a_wrong_token_signs_nobody_in_and_counts_as_a_failure(app: Flask, browser: Browser) -> None:
    app.extensions[LIMIT] = FailureLimit(3)
    for _ in range(3):
        refused = browser.sign_in("no such token")
        assert refused.status_code == 401
        assert "Set-Cookie" not in refused.headers
    assert browser.sign_in("no such token").status_code == 429
    assert browser.sign_in("admin").status_code == 429


@pytest.mark.parametrize(
    "headers",
    [{}, {"X-Pipeline-Console": "1"}, {"Sec-Fetch-Site": "same-origin"}, {**OWN, "Sec-Fetch-Site": "cross-site"}],
)
def test_a_change_by_cookie_alone_is_refused(browser: Browser, headers: dict[str, str]) -> None:
    browser.sign_in("admin")
    body = {"privileges": ["read_job"], "forwho": "eve"}
    assert browser.status("POST", "/v1/tokens", json=body, headers=headers) == 403
    assert browser.status("DELETE", "/v1/session", headers=headers) == 403
    assert browser.status("POST", "/v1/tokens", json=body) == 200


def test_another_site_cannot_sign_a_browser_in(browser: Browser) -> None:
    assert browser.sign_in("admin", **{"Sec-Fetch-Site": "cross-site"}).status_code == 403
    assert browser.sign_in("admin", Origin="http://other.example").status_code == 403
    assert browser.status() == 401


def test_a_revoked_token_ends_its_sessions_at_once(
    browser: Browser, admin: Client, bearer: Callable[..., Client]
) -> None:
    ada = bearer(Privilege.READ_JOB)
    browser.sign_in(ada.token)
    assert browser.status() == 200
    admin.payload("DELETE", "/v1/tokens", json={"token": ada.token})
    assert browser.status() == 401


def test_an_expired_token_ends_its_sessions(browser: Browser, admin: Client) -> None:
    body = {"privileges": ["read_job"], "forwho": "ada", "expiresAt": "2999-01-01T00:00:00Z"}
    token = admin.payload("POST", "/v1/tokens", json=body)["token"]
    browser.sign_in(token)
    with transaction() as session:
        session.execute(browser_sessions._TOKENS.update().values(expires_at=now()))
    assert browser.status() == 401


def test_what_is_taken_from_a_token_is_taken_from_its_sessions(
    browser: Browser, admin: Client, bearer: Callable[..., Client]
) -> None:
    ada = bearer(Privilege.READ_JOB, Privilege.READ_TOKEN)
    browser.sign_in(ada.token)
    assert browser.status("GET", "/v1/tokens") == 200
    admin.payload("PUT", "/v1/tokens/normal", json={"token": ada.token, "privileges": ["read_job"]})
    assert browser.status("GET", "/v1/tokens") == 403


def test_a_changed_password_ends_the_admins_sessions(app: Flask, browser: Browser, admin: Client) -> None:
    browser.sign_in("admin")
    assert browser.status() == 200
    admin.payload("PUT", "/v1/tokens/admin", json={"token": "a long new password"})
    assert browser.status() == 401
    browser.sign_in("a long new password")
    assert browser.status() == 200
    Client(app.test_client(), "a long new password").payload(
        "PUT", "/v1/tokens/admin", json={"token": "another password"}
    )
    assert browser.status() == 401


def test_another_configured_password_ends_the_admins_sessions(
    browser: Browser, monkeypatch: pytest.MonkeyPatch, fresh_runtime: Callable[[], None]
) -> None:
    browser.sign_in("admin")
    monkeypatch.setenv("PIPELINE_ADMIN_PASSWORD", "another password")
    fresh_runtime()
    assert browser.status() == 401


def test_a_session_ends_when_it_is_not_used(browser: Browser, clock: Clock) -> None:
    browser.sign_in("admin")
    for _ in range(3):
        clock.passed += timedelta(minutes=29)
        assert browser.status() == 200
    clock.passed += timedelta(minutes=31)
    assert browser.status() == 401


def test_a_session_ends_however_much_it_is_used(browser: Browser, clock: Clock) -> None:
    browser.sign_in("admin")
    while clock.passed < timedelta(hours=11, minutes=50):
        clock.passed += timedelta(minutes=10)
        assert browser.status() == 200
    clock.passed += timedelta(minutes=11)
    assert browser.status() == 401


def test_signing_out_ends_the_session_and_no_other(app: Flask, browser: Browser) -> None:
    other = Browser(app)
    browser.sign_in("admin")
    other.sign_in("admin")
    cookie = browser.client.get_cookie("pipeline_session")
    assert cookie is not None
    assert browser.status("DELETE", "/v1/session") == 200
    assert browser.client.get_cookie("pipeline_session") is None
    browser.client.set_cookie("pipeline_session", cookie.value)
    assert browser.status() == 401
    assert other.status() == 200


def test_signing_out_without_a_session_succeeds(browser: Browser) -> None:
    assert browser.status("DELETE", "/v1/session", headers={}) == 200


def test_the_retention_deletes_sessions_that_have_ended(browser: Browser, clock: Clock) -> None:
    browser.sign_in("admin")
    assert retention.enforce(100) == 0
    clock.passed = timedelta(minutes=31)
    assert retention.enforce(100) == 1
    assert retention.enforce(100) == 0
