"""What a page shows while something cannot be read or loaded, and that it goes on by itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.console.browser import Browser
from tests.console.probes import first_answers, probing
from tests.console.scenario import Scenario
from tests.waiting import wait_for

UNAVAILABLE = (503, json.dumps({"code": "UNAVAILABLE", "msg": "The database does not answer."}))
NOBODY = (0, "")
CUT_OFF = (200, '{"code": "OK", "payl')


@contextmanager
def blocked(browser: Browser, *urls: str) -> Iterator[None]:
    """Nothing answers for these URLs meanwhile; `*` stands for any text."""
    browser.driver.execute_cdp_cmd("Network.enable", {})
    browser.driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": list(urls)})
    try:
        yield
    finally:
        browser.driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": []})


@pytest.mark.parametrize("answer", [UNAVAILABLE, NOBODY, CUT_OFF])
def test_what_could_not_be_read_is_read_again(admin: Browser, stories: Scenario, answer: tuple[int, str]) -> None:
    with probing(admin, first_answers("/v1/job/list", answer, answer)):
        admin.open("/jobs")
        admin.find("[role=alert]", "not answer")
        admin.find("tbody .name", "resnet50-imagenet")
        assert admin.texts("[role=alert]") == []


@pytest.mark.parametrize("answer", [UNAVAILABLE, NOBODY, CUT_OFF])
def test_a_plan_that_was_not_answered_is_asked_for_again(
    admin: Browser, stories: Scenario, answer: tuple[int, str]
) -> None:
    with probing(admin, first_answers("/v1/job/explain", answer)):
        admin.open("/submit")
        admin.find(".page-head button", "TaskSet").click()
        admin.find(".faults", "not answer")
        admin.find(".stage")
        assert admin.texts(".faults li") == []


@pytest.mark.parametrize("answer", [UNAVAILABLE, NOBODY])
def test_a_search_that_failed_is_made_again(admin: Browser, stories: Scenario, answer: tuple[int, str]) -> None:
    with probing(admin, first_answers("/v1/search", answer)):
        admin.open("/jobs")
        admin.find("tbody .name")
        admin.press("/")
        admin.press("speech")
        admin.find(".hits [role=option]", "speech-nightly")


def test_who_has_signed_in_is_asked_until_there_is_an_answer(admin: Browser) -> None:
    with probing(admin, first_answers("/v1/whoami", UNAVAILABLE, CUT_OFF, NOBODY)):
        admin.open("/jobs")
        admin.find("p[role=status]", "Loading")
        admin.find(".who", "admin")


def test_an_answer_that_a_page_cannot_show_leaves_a_sentence(admin: Browser) -> None:
    with probing(admin, first_answers("/v1/status", (200, '{"code": "OK", "payload": {}}'))):
        admin.open("/")
        admin.find("[role=alert]", "This page cannot show what the service answered.")
    admin.find("nav a", "Submit").click()
    admin.find(".submit-form")
    admin.errors()


def test_a_page_whose_module_is_missing_comes_once_the_service_answers(admin: Browser, stories: Scenario) -> None:
    admin.open()
    admin.find(".verdict h2")
    with blocked(admin, "*/app/pages/jobs.js", "*/healthz"):
        admin.find("nav a", "Jobs").click()
        admin.find("main p[role=status]", "Loading")
    admin.find("tbody .name", "resnet50-imagenet")
    admin.errors()


def test_a_page_whose_module_stays_missing_says_so(admin: Browser, stories: Scenario) -> None:
    admin.open()
    admin.find(".verdict h2")
    with blocked(admin, "*/app/pages/jobs.js"):
        admin.find("nav a", "Jobs").click()
        admin.find("main [role=alert]", "This page could not be loaded.")
    admin.find("main [role=alert] button", "Load it again").click()
    admin.find("tbody .name", "resnet50-imagenet")
    admin.errors()


def test_without_its_modules_the_document_says_what_to_do(admin: Browser) -> None:
    with blocked(admin, "*/app/main.js"):
        admin.open("/")
        wait_for(lambda: "load the page again" in admin.find(".starting").text, "the sentence")
    admin.errors()
    admin.open("/")
    admin.find(".bar")
    assert admin.find(".starting").text == ""


def test_an_address_of_no_page_says_so(admin: Browser) -> None:
    for path in ("/jbos", "/jobs/%E0%A4%A", "/jobs/one/two"):
        admin.open(path)
        admin.find("main .notice", "There is no such page.")
    # The browser notes the status 404 of the document.
    admin.errors()
    admin.find("main .notice a", "Home").click()
    admin.find(".verdict h2")


def test_nobody_has_to_sign_in_for_an_address_of_no_page(browser: Browser) -> None:
    browser.open("/jbos")
    browser.find("main .notice", "There is no such page.")
    browser.errors()
