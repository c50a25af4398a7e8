"""Changes come by themselves; when the service is away the page says so, and goes on afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.builders import taskset
from tests.console.browser import Browser
from tests.console.probes import FEED_REQUESTS
from tests.console.scenario import Scenario
from tests.installation import Installation
from tests.waiting import wait_for


def test_a_state_changes_in_place(admin: Browser, service: Installation, stories: Scenario) -> None:
    job = service.submit(taskset("sleep 86400"), name="changes-in-place")
    service.wait_state(job, "running")
    admin.open("/jobs")
    link = f"a[href='/jobs/{job}']"
    admin.find(link)
    admin.script("window.row = document.querySelector(arguments[0]).closest('tr')", link)
    assert "running" in admin.script("return window.row.textContent")
    service.put(f"/v1/job/stop/{job}", {"reason": "seen enough"})
    wait_for(lambda: "stopped" in admin.script("return window.row.textContent"), "the row to change")
    assert admin.script("return window.row.isConnected"), "the row was drawn anew"


def test_a_new_job_comes_to_the_list(admin: Browser, service: Installation, stories: Scenario) -> None:
    admin.open("/jobs")
    admin.find("tbody tr")
    job = service.submit(taskset(), name="comes-by-itself")
    admin.find(f"a[href='/jobs/{job}']", "comes-by-itself")


def test_an_absence_is_seen_and_made_up_for(admin: Browser, service: Installation, stories: Scenario) -> None:
    job = service.submit(taskset("sleep 86400"), name="while-away")
    service.wait_state(job, "running")
    admin.open("/jobs")
    link = f"a[href='/jobs/{job}']"
    admin.find(link)
    admin.find(".live-live")
    admin.script("window.mark = 'the same document'")
    service.kill("api")
    try:
        admin.find(".banner p", "does not answer")
        before = admin.texts("time")
        wait_for(lambda: admin.texts(".live-away") != [], "the mark at the top")
        assert admin.texts("time") == before, "ages go on"
    finally:
        service.start("api")
    admin.wait_gone(".banner p")
    service.put(f"/v1/job/stop/{job}", {"reason": "made up for"})
    admin.find("tr", "made up for")
    assert admin.script("return window.mark") == "the same document"
    # The requests of that time found nobody.
    admin.errors()


@contextmanager
def windows(browser: Browser, count: int, path: str) -> Iterator[list[str]]:
    """So many windows more at a path, each seen by somebody, and what they ask of the feed is counted; their handles."""
    first = browser.driver.current_window_handle
    # It is a window as well, and would wait for news.
    browser.driver.get("about:blank")
    found = []
    try:
        for _ in range(count):
            browser.driver.switch_to.new_window("window")
            found.append(browser.driver.current_window_handle)
            # It goes when the window is closed.
            browser.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": FEED_REQUESTS})
            browser.open(path)
            browser.find(".live-live")
        yield found
    finally:
        for handle in set(browser.driver.window_handles) - {first}:
            browser.driver.switch_to.window(handle)
            browser.driver.close()
        browser.driver.switch_to.window(first)


def in_each(browser: Browser, handles: list[str], script: str) -> list[Any]:
    """What a script returns in each of these windows."""
    found = []
    for handle in handles:
        browser.driver.switch_to.window(handle)
        found.append(browser.script(script))
    return found


def waiting(browser: Browser, handles: list[str]) -> list[int]:
    """How many requests of each of these windows wait for news."""
    return in_each(browser, handles, "return feedRequests.waiting")


def test_twenty_windows_share_one_request_and_each_shows_what_comes(admin: Browser, service: Installation) -> None:
    with windows(admin, 20, "/jobs") as handles:
        assert not any(in_each(admin, handles, "return document.hidden"))
        wait_for(lambda: sum(waiting(admin, handles)) == 1, "one request that waits")
        for name in ("seen-by-twenty", "seen-by-all-of-them"):
            job = service.submit(taskset(), name=name)
            for handle in handles:
                admin.driver.switch_to.window(handle)
                admin.find(f"a[href='/jobs/{job}']")
        asked = in_each(admin, handles, "return feedRequests.asked")
        assert sum(count > 0 for count in asked) == 1, asked
        leading = next(handle for handle, count in zip(handles, asked, strict=True) if count)
        admin.driver.switch_to.window(leading)
        admin.driver.close()
        left = [handle for handle in handles if handle != leading]
        wait_for(lambda: sum(waiting(admin, left)) == 1, "another window to wait for all")
        job = service.submit(taskset(), name="seen-by-the-others")
        for handle in left:
            admin.driver.switch_to.window(handle)
            admin.find(f"a[href='/jobs/{job}']")
