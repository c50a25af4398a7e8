"""Flows and runs: what failed and why, the graph by the keyboard, runs by task, backfills, the editor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from tests.console.browser import NARROW, WIDE, Browser, Keys
from tests.console.scenario import HTML
from tests.installation import Installation
from tests.waiting import wait_for

FAILED_BECAUSE = "ValueError: column price has 3 empty values"


@dataclass(frozen=True)
class Flows:
    """The IDs of runs: one that failed, and one of a thousand tasks of which the first is running."""

    failed: str
    thousand: str


def _flow(service: Installation, name: str, tasks: dict[str, tuple[str, list[str]]], **fields: Any) -> None:
    """Import a flow of tasks, each with its script and the tasks that it waits for."""
    entry = {
        "pipeline": {"name": name, "dag_json": {key: {"upstream": up} for key, (_, up) in tasks.items()}, **fields},
        "tasks": [
            {"name": key, "job_templete": "customize", "args": {"images": "busybox", "command": script}}
            for key, (script, _) in tasks.items()
        ],
    }
    service.post("/v1/flows/import", {name: entry})


@pytest.fixture(scope="module")
def flows(service: Installation) -> Flows:
    failing = f"echo '{FAILED_BECAUSE}'; echo '{HTML[1]}'; exit 3"
    _flow(
        service,
        "sales",
        {"load": ("echo", []), "clean": (failing, ["load"]), "train": ("echo", ["clean"]), "count": ("echo", ["load"])},
        failFast=False,
    )
    wide = {f"part-{number}": ("echo", ["prepare"]) for number in range(998)}
    _flow(service, "wide", {"prepare": ("sleep 86400", []), **wide, "publish": ("echo", [*wide])})
    _flow(
        service,
        "daily",
        {"load": ("echo", [])},
        schedule_type="crontab",
        cron_time="0 2 * * *",
        timezone="Europe/Berlin",
        cronjob_start_time="2026-03-01 00:00:00",
    )
    found = Flows(
        failed=service.post("/v1/flows/sales/run", {})["runID"],
        thousand=service.post("/v1/flows/wide/run", {})["runID"],
    )
    wait_for(lambda: service.get(f"/v1/runs/{found.failed}")["state"] == "failed", "the run that fails")
    wait_for(lambda: service.get(f"/v1/runs/{found.thousand}")["tasks"][0]["state"] == "running", "the long task")
    return found


def test_a_run_begins_with_what_failed_and_why(admin: Browser, flows: Flows) -> None:
    admin.open(f"/runs/{flows.failed}")
    admin.find(".callout-bad h2", "clean failed")
    admin.find(".callout-bad .why", "exit code 3")
    admin.find(".callout-bad .tail", FAILED_BECAUSE)
    admin.find(".callout-bad .tail", HTML[1])
    admin.find(".task-row", "It will not run: clean did not succeed.")


def test_the_last_runs_lead_from_home_to_their_pages(admin: Browser, flows: Flows) -> None:
    admin.open("/")
    admin.find(f".panel a.name[href='/runs/{flows.failed}']", "sales").click()
    admin.find(".callout-bad h2", "clean failed")


def test_a_task_is_marked_and_its_run_goes_on(admin: Browser, service: Installation, flows: Flows) -> None:
    run = service.post("/v1/flows/sales/run", {})["runID"]
    wait_for(lambda: service.get(f"/v1/runs/{run}")["state"] == "failed", "the run that fails")
    admin.open(f"/runs/{run}?task=clean")
    admin.find(".side button", "Mark as succeeded").click()
    admin.find("dialog textarea").send_keys("cleaned by hand")
    admin.find("dialog button[type=submit]").click()
    admin.wait_gone("dialog")
    # The page shows the end without being loaded anew.
    admin.find(".big-state", "succeeded")


def test_the_graph_is_walked_by_keys_and_draws_what_is_in_view(admin: Browser, flows: Flows) -> None:
    admin.open(f"/runs/{flows.thousand}?view=graph")
    admin.find(".node-running", "prepare")
    drawn = len(admin.texts(".graph-node"))
    assert 0 < drawn < 200
    admin.script("document.querySelector('.graph-box').focus()")
    # The first key chooses what is in the middle.
    admin.press(Keys.ARROW_LEFT)
    admin.find(".node-chosen", "part-")
    admin.press(Keys.ARROW_LEFT)
    admin.find(".node-chosen", "prepare")
    admin.press(Keys.ARROW_RIGHT)
    admin.find(".node-chosen", "part-")
    admin.find(".side", "It waits for prepare.")


def test_the_grid_is_read_by_one_request(admin: Browser, flows: Flows) -> None:
    admin.open("/flows/sales")
    admin.find(".grid-row", "clean")
    assert len(admin.texts(".grid-cell.state-failed")) >= 1
    own = [one["name"].split("/v1/")[1] for one in admin.requested() if "/v1/flows/" in one["name"]]
    assert len(own) <= 3
    admin.script("document.querySelector('.grid-cell.state-failed').click()")
    admin.find(".side h2", "clean")


def test_a_backfill_shows_its_points_before_it_starts(admin: Browser, service: Installation, flows: Flows) -> None:
    admin.open("/flows/daily?view=backfills")
    admin.find(".plan-form")
    admin.script(
        "const [from, to] = document.querySelectorAll('input[type=datetime-local]');"
        "from.value = '2026-03-28T00:00'; to.value = '2026-03-30T00:00';"
    )
    admin.find(".plan-form button").click()
    admin.find(".plan-result h2", "2 points would run, in Europe/Berlin")
    # The second is on the day on which the clocks go forward: 02:00 is skipped, and it is due at 03:00.
    points = admin.script("return [...document.querySelectorAll('.plan-result time')].map((one) => one.dateTime)")
    assert points == ["2026-03-28T01:00:00Z", "2026-03-29T01:00:00Z"]
    assert service.get("/v1/flows/daily/backfills") == []


def test_the_editor_marks_errors_at_their_lines(admin: Browser, flows: Flows) -> None:
    admin.open("/flows/daily/edit")
    wait_for(lambda: "cron_time" in (admin.script("return document.querySelector('.code-text')?.value") or ""), "text")
    admin.script(
        "const field = document.querySelector('.code-text');"
        "field.value = field.value.replace('0 2 * * *', '0 99 * * *');"
        "field.dispatchEvent(new Event('input', { bubbles: true }));"
    )
    admin.find(".marks code", "pipeline.cron_time")
    text = admin.script("return document.querySelector('.code-text').value")
    line = next(number for number, one in enumerate(text.splitlines(), 1) if "cron_time" in one)
    assert admin.texts(".code-gutter b") == [str(line)]
    assert admin.script("return document.querySelector('.page-head .primary').disabled")
    admin.find(".marks button", f"line {line}").click()
    selected = (
        "const field = document.activeElement; return field.value?.slice(field.selectionStart, field.selectionEnd)"
    )
    wait_for(lambda: "0 99 * * *" in (admin.script(selected) or ""), "the line to be selected")


@pytest.mark.parametrize(("language", "size", "dark"), [("en", WIDE, False), ("zh", NARROW, True)])
def test_these_pages_are_accessible(
    admin: Browser, flows: Flows, language: str, size: tuple[int, int], dark: bool
) -> None:
    admin.speak(language)
    admin.look(size=size, dark=dark)
    pages = {
        f"/runs/{flows.failed}": ".task-row",
        f"/runs/{flows.failed}?view=graph&task=clean": ".graph-node",
        f"/runs/{flows.failed}?view=timeline": ".time-row",
        "/flows": "tbody tr",
        "/flows/sales": ".grid-row",
        "/flows/daily?view=calendar": ".day",
        "/flows/daily?view=backfills": ".plan-form",
        "/flows/daily/edit": ".graph-node",
        "/templates": ".template-form",
    }
    for path, there in pages.items():
        admin.open(path)
        admin.find(there)
        assert admin.accessibility_problems() == [], path
        assert admin.violations_of_the_policy() == [], path
        assert admin.errors() == [], path
        assert admin.script("return document.documentElement.scrollWidth - innerWidth") <= 0, path
