"""Changes come by themselves; when the service is away the page says so, and goes on afterwards."""

from __future__ import annotations

from tests.builders import taskset
from tests.console.browser import Browser
from tests.console.scenario import Scenario
from tests.installation import Installation
from tests.waiting import wait_for


def test_a_state_changes_in_place(admin: Browser, service: Installation, stories: Scenario) -> None:
    job = service.submit(taskset("sleep 600"), name="changes-in-place")
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
    job = service.submit(taskset("sleep 600"), name="while-away")
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


def test_one_tab_waits_for_all_and_a_hidden_one_for_nothing(admin: Browser, service: Installation) -> None:
    admin.open("/jobs")
    admin.find(".live-live")
    first = admin.driver.current_window_handle
    admin.driver.switch_to.new_window("window")
    admin.driver.get(f"{admin.url}/jobs")
    admin.find(".live-live")
    try:
        held = admin.script("return navigator.locks.query().then(({ held, pending }) => [held.length, pending.length])")
        assert held[0] == 1
    finally:
        admin.driver.close()
        admin.driver.switch_to.window(first)
