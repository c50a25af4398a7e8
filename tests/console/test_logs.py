"""Logs: of any length, without the page getting slow."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tests.builders import taskset
from tests.console.browser import Browser
from tests.console.probes import LARGEST_PAINT, LONG_TASKS, log_of, logs_answered, probing
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


def lines(browser: Browser) -> int:
    return int("".join(filter(str.isdigit, browser.find(".logs .count").text)))


def test_of_a_long_log_only_what_is_in_view_is_in_the_document(admin: Browser, long_log: tuple[str, int]) -> None:
    job, count = long_log
    admin.open(f"/jobs/{job}")
    wait_for(lambda: lines(admin) == count, "all lines", progress=lambda: lines(admin))
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
    # What is looked for is found and shown.
    search = admin.find(".logs input[type=search]")
    search.send_keys("77777")
    admin.find(".logs [role=status]", "1 of 1")
    admin.find(".log-target mark", "77777")
    search.clear()
    # A very long line is wrapped whole.
    admin.find(".logs .check", "Wrap").click()
    admin.script("arguments[0].scrollTop = arguments[0].scrollHeight", box)
    admin.find(".log-row", "the end")
    rows = admin.script("return document.querySelector('.log-all').clientHeight / 18")
    assert rows > LINES + LONG / 400
    assert len(admin.texts(".log-row")) <= MOST_ROWS


def test_colours_of_terminals_are_shown_and_logs_of_a_replica_alone(admin: Browser, stories: Scenario) -> None:
    admin.open(f"/jobs/{stories.decorated}")
    admin.find(".log-row .ansi-2", "epoch 5")
    admin.find(".log-row .ansi-bold", "0.4")
    assert not any("\x1b" in text for text in admin.texts(".log-row"))
    both = lines(admin)
    admin.find("button[aria-label='Show the logs of worker-1']").click()
    wait_for(lambda: lines(admin) == both / 2, "the logs of one replica")
    assert "task=worker&replica=1" in (admin.find("a", "Download").get_attribute("href") or "")


def test_a_log_of_any_length_keeps_the_page_small(
    admin: Browser, service: Installation, long_log: tuple[str, int], capsys: pytest.CaptureFixture[str]
) -> None:
    job, _ = long_log
    # The local cluster cuts lines that are as long.
    with probing(admin, LONG_TASKS, LARGEST_PAINT, log_of(LINES, LONG)):
        admin.open(f"/jobs/{job}")
        wait_for(lambda: lines(admin) == LINES + 2, "all lines", progress=lambda: lines(admin))
        box = admin.find(".log-box")
        for wrapped in (False, True):
            for part in (0, 0.5, 1):
                admin.script("arguments[0].scrollTop = arguments[0].scrollHeight * arguments[1]", box, part)
                assert len(admin.texts(".log-row")) <= MOST_ROWS
                assert max(map(len, admin.texts(".log-text"))) < 3000
            admin.find(".log-row", "the end")
            if not wrapped:
                admin.find(".log-row", "1,046,576 more characters")
                admin.find(".logs .check", "Wrap").click()
        rows = admin.script("return document.querySelector('.log-all').clientHeight / 18")
        assert rows > LINES + LONG / 400
        tasks = admin.script("return longTasks.filter(({ startTime }) => startTime > logsAskedAt)")
        paint = admin.script("return largestPaint")
    # How long things take is of the machine: scripts/bench console_pages_ms measures it.
    with capsys.disabled():
        sys.stdout.write(
            f"\nlargest paint {paint:.0f} ms; tasks over 50 ms: {[round(task['duration']) for task in tasks]}\n"
        )


def test_after_a_break_lines_are_neither_lost_nor_doubled(admin: Browser, service: Installation) -> None:
    script = "for number in $(seq 30); do echo replica $TASKROLE_REPLICA_INDEX line $number; sleep 0.2; done"
    job = service.submit(taskset(script, replicas=2), name="broken-off")
    service.wait_state(job, "running")
    admin.open(f"/jobs/{job}")
    wait_for(lambda: lines(admin) >= 10, "the first lines")
    service.kill("api")
    try:
        admin.find(".banner p", "does not answer")
    finally:
        service.start("api")
    wait_for(lambda: service.ask("GET", "/readyz").status_code == 200, "the API")
    service.wait_state(job, "succeeded")
    # What follows the log is offered as long as it may go on.
    wait_for(lambda: admin.texts(".logs .check") == ["Wrap"], "the end of the log")
    # In the middle of so few lines all of them are in the document.
    admin.script(
        "const box = document.querySelector('.log-box'); box.scrollTop = (box.scrollHeight - box.clientHeight) / 2"
    )
    wait_for(lambda: len(admin.texts(".log-text")) == lines(admin), "all rows")
    expected = service.ask("GET", f"/v1/job/logs/{job}").text.splitlines()
    shown = admin.texts(".log-text")
    assert sorted(shown) == sorted(expected)
    for replica in ("worker-0", "worker-1"):
        own = [line for line in shown if line.startswith(f"{replica} | ")]
        assert own == [line for line in expected if line.startswith(f"{replica} | ")]
    # The requests of that time found nobody.
    admin.errors()


def record(text: str, *, source: str = "worker-0", goes_on: bool = False) -> dict[str, Any]:
    return {"time": "2026-01-01T00:00:00Z", "source": source, "text": text, "open": goes_on}


def test_what_came_after_the_last_cursor_and_lines_that_have_not_ended_come_again(
    admin: Browser, long_log: tuple[str, int]
) -> None:
    broken = [record("one"), record("Pass", goes_on=True), {"cursor": "c1"}, record("word: x"), record("three")]
    rest = [record("Password: x"), record("three"), record("four", goes_on=True), {"cursor": "c2"}]
    with probing(admin, logs_answered((broken, True), (rest, False))):
        admin.open(f"/jobs/{long_log[0]}")
        admin.find(".log-text", "Password: x")
        wait_for(lambda: lines(admin) == 4, "the rest")
        assert admin.texts(".log-text") == ["one", "Password: x", "three", "four"]
        assert admin.script("return askedForLogs") == ["?format=json", "?format=json&cursor=c1"]


def test_after_an_empty_cursor_all_lines_come_again(admin: Browser, long_log: tuple[str, int]) -> None:
    broken = [record("one"), {"cursor": "c1"}, record("two"), {"cursor": ""}, record("three")]
    whole = [record("one"), record("two"), record("three"), {"cursor": ""}]
    with probing(admin, logs_answered((broken, True), (whole, False))):
        admin.open(f"/jobs/{long_log[0]}")
        wait_for(lambda: admin.script("return askedForLogs.length") == 2, "the second request")
        wait_for(lambda: admin.texts(".log-text") == ["one", "two", "three"], "all lines once")
        assert admin.script("return askedForLogs") == ["?format=json", "?format=json"]


def test_lines_begin_with_their_source_as_soon_as_there_are_two(admin: Browser, long_log: tuple[str, int]) -> None:
    records = [record("one"), record("two", source="worker-0/proxy"), {"cursor": "c1"}]
    with probing(admin, logs_answered((records, False))):
        admin.open(f"/jobs/{long_log[0]}")
        admin.find(".log-text", "two")
        assert admin.texts(".log-text") == ["worker-0 | one", "worker-0/proxy | two"]
