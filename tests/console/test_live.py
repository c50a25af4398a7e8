"""Changes come by themselves; when the service is away the page says so, and goes on afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from pipeline_core.common.clock import now, parse_rfc3339
from tests.builders import taskset
from tests.console.browser import WIDE, Browser
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


def test_a_hidden_window_asks_for_nothing_and_is_of_now_when_it_is_shown(admin: Browser, service: Installation) -> None:
    with windows(admin, 1, "/jobs") as shown:
        wait_for(lambda: waiting(admin, shown) == [1], "the request that waits")
        admin.driver.minimize_window()
        wait_for(lambda: admin.script("return document.hidden"), "the window to be hidden")
        wait_for(lambda: admin.script("return feedRequests.waiting") == 0, "its request to end")
        # Answers to what was asked before may still come, and be of later.
        wait_for(lambda: admin.script("return feedRequests.open") == 0, "its other requests to end")
        asked = admin.script("return [feedRequests.asked, feedRequests.others]")
        job = service.submit(taskset(), name="while-hidden")
        service.wait_state(job, "succeeded")
        assert admin.script("return [feedRequests.asked, feedRequests.others]") == asked
        assert admin.script("return document.querySelector(arguments[0])", f"a[href='/jobs/{job}']") is None
        admin.driver.set_window_rect(0, 0, *WIDE)
        wait_for(lambda: not admin.script("return document.hidden"), "the window to be shown")
        admin.find(f"a[href='/jobs/{job}']")
        wait_for(lambda: waiting(admin, shown) == [1], "it to wait for news again")


HOLD_TIMERS = """
    const real = window.setTimeout;
    window.held = [];
    window.setTimeout = (act, ms, ...words) => (ms <= 2000 ? held.push(() => act(...words)) : real(act, ms, ...words));
"""
"""`held`: what the page would do soon, in place of doing it."""


def test_what_was_to_be_read_soon_is_not_read_by_a_window_that_was_hidden_meanwhile(
    admin: Browser, service: Installation
) -> None:
    with windows(admin, 1, "/jobs") as shown:
        wait_for(lambda: waiting(admin, shown) == [1], "the request that waits")
        admin.script(HOLD_TIMERS)
        service.submit(taskset(), name="before-hidden")
        wait_for(lambda: admin.script("return held.length"), "the list to be read again soon")
        admin.driver.minimize_window()
        wait_for(lambda: admin.script("return document.hidden"), "the window to be hidden")
        before = admin.script("return feedRequests.others")
        admin.script("held.forEach((act) => act())")
        assert admin.script("return feedRequests.others") == before
        admin.driver.set_window_rect(0, 0, *WIDE)


AWAY_SECONDS = 30
KINDS = "state,stage,run,delivery"
NOTE_EVENTS = """
    const done = arguments[arguments.length - 1];
    const main = document.querySelector('script[type=module]').src;
    window.seen = [];
    import(main.replace('main.js', 'live.js')).then(({ onEvents }) => {
        onEvents((events) => seen.push(...events));
        done();
    });
"""
"""The module is the one that the page has: it is given the events as its pages are."""


def test_over_an_absence_no_event_is_missed_or_doubled(admin: Browser, service: Installation) -> None:
    with windows(admin, 2, "/jobs") as handles:
        for handle in handles:
            admin.driver.switch_to.window(handle)
            admin.driver.execute_async_script(NOTE_EVENTS)
        first = service.submit(taskset(), name="before-the-absence")
        began = f"return seen.find(({{ jobID }}) => jobID === '{first}')?.position"
        wait_for(lambda: all(in_each(admin, handles, began)), "the first event")
        start = max(in_each(admin, handles, began))
        # They end while the API is away, one after the other.
        jobs = [service.submit(taskset(f"sleep {number}"), name=f"over-an-absence-{number}") for number in range(30)]
        service.kill("api")
        killed = now()
        try:
            wait_for(lambda: all(in_each(admin, handles, "return document.querySelector('.live-away')")), "the banner")
            wait_for(lambda: now() > killed + timedelta(seconds=AWAY_SECONDS), "the absence to last")
        finally:
            back = now()
            service.start("api")
        wait_for(lambda: service.ask("GET", "/readyz").status_code == 200, "the API")
        jobs += [service.submit(taskset(), name=f"after-an-absence-{number}") for number in range(20)]
        for job in jobs:
            service.wait_state(job, "succeeded")
        last = int(service.ask("GET", "/v1/events?after=latest").headers["X-Next-Cursor"])
        committed = [
            entry
            for entry in service.get(f"/v1/events?after={start - 1}&kind={KINDS}&limit=1000")
            if entry["position"] <= last
        ]
        assert committed[-1]["position"] == last, "the feed has more than is read at once"
        assert any(killed < parse_rfc3339(entry["occurredAt"]) < back for entry in committed), (
            "nothing changed meanwhile"
        )
        # Deliveries are in the feed too, so that it may have gone on.
        upto = f"return (seen.at(-1)?.position ?? 0) >= {last}"
        wait_for(lambda: all(in_each(admin, handles, upto)), "all events")
        positions = f"return seen.map(({{ position }}) => position).filter((one) => one >= {start} && one <= {last})"
        for seen in in_each(admin, handles, positions):
            assert seen == [entry["position"] for entry in committed]
    # The requests of that time found nobody.
    admin.errors()
