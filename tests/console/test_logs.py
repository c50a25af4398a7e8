"""Logs: of any length, without the page getting slow."""

from __future__ import annotations

import pytest

from tests.builders import taskset
from tests.console.browser import Browser
from tests.console.scenario import Scenario
from tests.installation import Installation
from tests.waiting import wait_for

LINES = 100_000
LONG = 1024 * 1024
MOST_ROWS = 300


@pytest.fixture(scope="module")
def long_log(service: Installation) -> tuple[str, int]:
    """A job that has written many lines, and a very long one that the local cluster cuts; and the number of lines."""
    script = f"seq 1 {LINES}; head -c {LONG} /dev/zero | tr '\\0' x; echo; echo the end"
    job = service.submit(taskset(script), name="long-log")
    service.wait_state(job, "succeeded")
    return job, service.ask("GET", f"/v1/job/logs/{job}").text.count("\n")


def open_logs(browser: Browser, long_log: tuple[str, int]) -> None:
    """Open the job's page, and wait for all lines."""
    job, count = long_log
    browser.open(f"/jobs/{job}")
    wait_for(lambda: lines(browser) == count, "all lines", progress=lambda: lines(browser))


def lines(browser: Browser) -> int:
    return int("".join(filter(str.isdigit, browser.find(".logs .count").text)))


def test_of_a_long_log_only_what_is_in_view_is_in_the_document(admin: Browser, long_log: tuple[str, int]) -> None:
    open_logs(admin, long_log)
    box = admin.find(".log-box")
    for part in (0, 0.3, 0.999, 1):
        admin.script("arguments[0].scrollTop = arguments[0].scrollHeight * arguments[1]", box, part)
        number = round(part * LINES)
        wait_for(
            lambda number=number: any(abs(int(n) - number) < 200 for n in admin.texts(".log-number") if n), "the rows"
        )
        assert len(admin.texts(".log-row")) <= MOST_ROWS
    admin.find(".log-row", "the end")
    admin.find(".log-row", "more characters")


def test_a_very_long_line_is_wrapped_whole(admin: Browser, long_log: tuple[str, int]) -> None:
    open_logs(admin, long_log)
    admin.find(".logs .check", "Wrap").click()
    admin.script("const box = document.querySelector('.log-box'); box.scrollTop = box.scrollHeight")
    admin.find(".log-row", "the end")
    rows = admin.script("return document.querySelector('.log-all').clientHeight / 18")
    assert rows > LINES + LONG / 400
    assert len(admin.texts(".log-row")) <= MOST_ROWS


def test_what_is_looked_for_is_found_and_shown(admin: Browser, long_log: tuple[str, int]) -> None:
    open_logs(admin, long_log)
    admin.find(".logs input[type=search]").send_keys("77777")
    admin.find(".logs [role=status]", "1 of 1")
    admin.find(".log-target mark", "77777")


def test_colours_of_terminals_are_shown_and_logs_of_a_replica_alone(admin: Browser, stories: Scenario) -> None:
    admin.open(f"/jobs/{stories.decorated}")
    admin.find(".log-row .ansi-2", "epoch 5")
    admin.find(".log-row .ansi-bold", "0.4")
    assert not any("\x1b" in text for text in admin.texts(".log-row"))
    both = lines(admin)
    admin.find("button[aria-label='Show the logs of worker-1']").click()
    wait_for(lambda: lines(admin) == both / 2, "the logs of one replica")
    assert "task=worker&replica=1" in (admin.find("a", "Download").get_attribute("href") or "")
