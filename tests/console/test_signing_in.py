"""Signing in and out, and what ends a session."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from tests.console.browser import Browser, Keys
from tests.console.scenario import Scenario
from tests.installation import Installation


def test_a_wrong_token_is_refused_with_a_sentence(browser: Browser) -> None:
    browser.open()
    browser.find("#token").send_keys("wrong", Keys.ENTER)
    browser.find("[role=alert]", "unknown, revoked or expired")


def test_signing_in_and_out_with_the_keyboard_alone(browser: Browser) -> None:
    browser.open()
    browser.find("#token")
    browser.press("admin", Keys.ENTER)
    browser.find(".who", "admin")
    cookie = f"pipeline_session_{urlsplit(browser.url).port}"
    assert browser.driver.get_cookie(cookie)["httpOnly"]
    assert browser.script("return document.cookie") == ""
    browser.find("button", "Sign out").send_keys(Keys.ENTER)
    browser.find("#token")
    assert browser.driver.get_cookie(cookie) is None


def test_a_document_that_is_loaded_again_asks_for_nothing(browser: Browser) -> None:
    browser.open()
    browser.enter("admin")
    browser.open("/jobs")
    browser.find(".who", "admin")
    assert browser.find("nav a[aria-current]").text == "Jobs"


def test_a_revoked_token_leads_back_to_signing_in(
    browser: Browser, service: Installation, token: Callable[..., str]
) -> None:
    value = token("read_job")
    browser.open("/jobs")
    browser.enter(value)
    assert service.ask("DELETE", "/v1/tokens", {"token": value}).status_code == 200
    # What the page reads by itself may have met the refusal already.
    browser.script("document.querySelector('.chips button:nth-of-type(3)')?.click()")
    browser.find("#token")


def test_a_token_shows_what_it_may_and_offers_no_more(
    browser: Browser, stories: Scenario, token: Callable[..., str]
) -> None:
    browser.open(f"/jobs/{stories.suspended}")
    browser.enter(token("read_job"))
    browser.find(".decision")
    assert browser.texts(".job-head button") == []


def test_an_own_only_token_sees_nothing_of_others(
    browser: Browser, stories: Scenario, token: Callable[..., str]
) -> None:
    browser.open("/jobs")
    browser.enter(token("read_job", forwho="somebody else", own_only=True))
    browser.find(".empty")
    assert browser.texts("tbody tr") == []
    browser.open(f"/jobs/{stories.decorated}")
    browser.find(".notice-bad", "There is no job")
