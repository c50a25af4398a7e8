"""The list of jobs and the page of one: filters, several at once, decisions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from tests.builders import taskset
from tests.console.browser import Browser, Keys, chromium
from tests.console.scenario import GATE_REASON, Scenario
from tests.installation import Installation
from tests.waiting import wait_for


def test_filters_stand_in_the_address(admin: Browser, stories: Scenario) -> None:
    admin.open("/jobs?state=failed")
    admin.find("tbody tr", "sweep-100")
    assert set(admin.texts("tbody .state")) == {"failed"}
    admin.find("input[aria-label='Name begins with']").send_keys("spee")
    wait_for(lambda: admin.texts("tbody .name") == ["speech-nightly"], "the filter by name")
    assert urlsplit(admin.driver.current_url).query == "state=failed&name=spee"
    admin.driver.refresh()
    admin.find("tbody .name", "speech-nightly")
    admin.find("button", "Clear the filters").click()
    admin.find("tbody .name", "resnet50-imagenet")


def test_several_are_stopped_with_one_reason(admin: Browser, service: Installation, stories: Scenario) -> None:
    jobs = [service.submit(taskset("sleep 86400"), name=f"several-{number}") for number in range(3)]
    for job in jobs:
        service.wait_state(job, "running")
    admin.open("/jobs?name=several-")
    wait_for(lambda: len(admin.texts("tbody tr")) == 3, "the three jobs")
    admin.find("th input[type=checkbox]").click()
    admin.find(".page-head button", "Stop").click()
    admin.find("dialog textarea").send_keys("wrong data")
    admin.find("dialog button[type=submit]").click()
    admin.wait_gone("dialog")
    for job in jobs:
        assert service.wait_state(job, "stopped")["reason"] == "wrong data"


def test_the_page_says_who_suspended_a_job_and_why_and_resumes_it_with_the_keyboard(
    browser: Browser, service: Installation, stories: Scenario, token: Callable[..., str]
) -> None:
    job = service.submit(taskset(), name="asks-for-an-approver", header={"budget": "yes"})
    service.wait_state(job, "suspended")
    browser.sign_in(token("read_job", "approve_job", forwho="eve"), f"/jobs/{job}")
    browser.find(".why-who", "AccessGate.budget.tests")
    browser.find(".why", GATE_REASON)
    browser.find(".decision-warn", GATE_REASON)
    browser.find("button.primary", "Resume").send_keys(Keys.ENTER)
    browser.find("dialog textarea:focus")
    browser.press("granted until Friday", Keys.TAB, Keys.TAB, Keys.ENTER)
    browser.wait_gone("dialog")
    service.wait_state(job, "succeeded")
    browser.find(".decision", "resumed by eve")
    browser.find(".job-head .state", "succeeded")


def test_of_two_browsers_one_resumes_and_the_other_reads_why_not(
    admin: Browser, service: Installation, stories: Scenario, tmp_path: Path
) -> None:
    job = service.submit(taskset(), name="resumed-twice", header={"budget": "yes"})
    service.wait_state(job, "suspended")
    with chromium(tmp_path) as driver:
        other = Browser(driver, service.url)
        other.sign_in("admin", f"/jobs/{job}")
        admin.open(f"/jobs/{job}")
        for browser in (admin, other):
            browser.find("button.primary", "Resume").click()
            browser.find("dialog textarea").send_keys("granted")
        admin.find("dialog button[type=submit]").click()
        admin.wait_gone("dialog")
        other.find("dialog [role=alert]", "Somebody was first")
        other.find("dialog blockquote", GATE_REASON)
        other.find("dialog button[type=submit]").click()
        refused = other.find("dialog [role=alert]", "The job")
        answer = service.ask("PUT", f"/v1/job/resume/{job}", {})
        assert answer.status_code == 409
        assert refused.text.split()[0] == answer.json()["msg"].split()[0]


def test_the_search_leads_to_a_job_by_the_keyboard(admin: Browser, stories: Scenario) -> None:
    admin.open()
    admin.find(".verdict h2")
    admin.press("/")
    admin.press("speech")
    admin.find(".hits [role=option]", "speech-nightly")
    admin.press(Keys.ENTER)
    admin.find("h1", "speech-nightly")
    admin.find(".why", "contradict each other")


def test_a_hundred_replicas_are_seen_at_a_glance(admin: Browser, stories: Scenario) -> None:
    admin.open(f"/jobs/{stories.hundred}")
    admin.find(".marks")
    assert len(admin.texts(".mark")) == 100
    assert admin.texts(".role tbody tr .state")[0] == "failed"
    assert admin.texts(".role tbody tr button")[0] == "37"


def test_a_job_that_failed_is_submitted_again(admin: Browser, service: Installation) -> None:
    job = service.submit(taskset("exit 3"), name="fails-once")
    service.wait_state(job, "failed")
    admin.open(f"/jobs/{job}")
    admin.find(".page-head button", "Retry").click()
    admin.find("dialog button[type=submit]").click()
    admin.find(f".facts a[href='/jobs/{job}']")
    again = urlsplit(admin.driver.current_url).path.rsplit("/", 1)[1]
    assert again != job
    assert service.wait_state(again, "failed")["retryOf"] == job
