"""Flows and runs: what failed and why, the graph by the keyboard, runs by task, backfills, the editor."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

import pytest

from tests.console.browser import NARROW, WIDE, Browser, Keys
from tests.console.scenario import FAILED_BECAUSE, HTML, Flows, Scenario, import_flow
from tests.installation import Installation
from tests.waiting import wait_for


def test_a_run_begins_with_what_failed_and_why(admin: Browser, flows: Flows) -> None:
    admin.open(f"/runs/{flows.failed}")
    admin.find(".callout-bad h2", "clean failed")
    admin.find(".callout-bad .why", "exit code 3")
    admin.find(".callout-bad .tail", FAILED_BECAUSE)
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


def test_what_never_began_says_because_of_what(admin: Browser, service: Installation) -> None:
    tasks = {"check": (f"echo '{HTML[1]}'; exit 3", []), "other": ("echo", [])}
    import_flow(service, "strict", tasks, parallelism=1, global_env="DAY=monday\nREGION=north")
    run = service.post("/v1/flows/strict/run", {"variables": {"REGION": "south"}})["runID"]
    wait_for(lambda: service.get(f"/v1/runs/{run}")["state"] == "failed", "the run to fail")
    admin.open(f"/runs/{run}?task=other")
    admin.find(".callout-bad .tail", HTML[1])
    row = admin.find(".task-row", "Not run because check failed.")
    assert "not run" in row.text
    admin.find(".side .state", "not run")
    admin.find(".progress .state", "not run")
    assert admin.texts(".run-variables dt") == ["DAY", "REGION"]
    assert admin.texts(".run-variables dd") == ["monday", "south"]


def _confirm(browser: Browser, button: str, text: str = "") -> None:
    """Press a button of the page, and confirm in its dialog, with a reason where there is one to give."""
    browser.find(".page-head button", button).click()
    if text:
        browser.find("dialog textarea").send_keys(text)
    browser.find("dialog button[type=submit]").click()
    browser.wait_gone("dialog")


def test_a_run_is_started_stopped_retried_and_deleted(admin: Browser, service: Installation) -> None:
    import_flow(service, "buttons", {"long": ("sleep 86400", [])}, global_env="DAY=monday")
    admin.open("/flows/buttons")
    admin.find(".page-head button", "Run").click()
    field = admin.find("dialog input[name='variable DAY']")
    field.clear()
    field.send_keys("friday")
    admin.find("dialog button[type=submit]").click()
    admin.find(".run-variables dd", "friday")
    run = urlsplit(admin.driver.current_url).path.rsplit("/", 1)[1]
    admin.find(".big-state", "running")
    _confirm(admin, "Stop", "seen enough")
    admin.find(".big-state", "stopped")
    assert service.get(f"/v1/runs/{run}")["reason"] == "seen enough"
    _confirm(admin, "Retry")
    admin.find(".big-state", "running")
    _confirm(admin, "Stop", "seen it twice")
    admin.find(".big-state", "stopped")
    wait_for(lambda: service.get(f"/v1/runs/{run}")["finishedAt"], "the run to end")
    _confirm(admin, "Delete")
    admin.find(".page-head h1", "buttons")
    assert service.ask("GET", f"/v1/runs/{run}").status_code == 404


def test_a_task_that_had_no_job_is_not_run_in_the_grid_and_in_the_run(admin: Browser, service: Installation) -> None:
    import_flow(service, "halted", {"long": ("sleep 86400", []), "next": ("true", ["long"])})
    run = service.post("/v1/flows/halted/run", {})["runID"]
    wait_for(lambda: service.get(f"/v1/runs/{run}")["tasks"][0]["state"] == "running", "the first task")
    service.put(f"/v1/runs/{run}/stop", {"reason": "seen enough"})
    wait_for(lambda: service.get(f"/v1/runs/{run}")["finishedAt"], "the run to end")
    admin.open(f"/runs/{run}")
    admin.find(".task-row .state-stopped", "stopped")
    admin.find(".task-row .state-not_run", "not run")
    admin.open("/flows/halted")
    admin.find(".grid-cell.state-stopped")
    assert [admin.find(".grid-cell.state-not_run").get_attribute("title")] == ["next: not run"]
    admin.find(".grid-name", "2 tasks")


def test_a_schedule_is_paused_and_resumed(admin: Browser, service: Installation, flows: Flows) -> None:
    admin.open("/flows/daily")
    # What was imported with a schedule waits for somebody to resume it.
    admin.find(".callout-warn", "paused")
    _confirm(admin, "Resume")
    admin.wait_gone(".callout-warn")
    assert not service.get("/v1/flows/daily/schedule")["paused"]
    _confirm(admin, "Pause")
    admin.find(".callout-warn", "paused")
    assert service.get("/v1/flows/daily/schedule")["paused"]


def test_a_changed_document_is_saved(admin: Browser, service: Installation) -> None:
    import_flow(service, "written", {"load": ("echo", [])}, describe="as it was")
    admin.open("/flows/written/edit")
    admin.find(".good-text")
    admin.script(
        "const field = document.querySelector('.code-text');"
        "field.value = field.value.replace('as it was', 'as it is');"
        "field.dispatchEvent(new Event('input', { bubbles: true }));"
    )
    save = admin.find(".page-head button", "Save")
    wait_for(save.is_enabled, "the check")
    save.click()
    admin.find(".page-head p", "as it is")
    assert service.get("/v1/flows/written")["pipeline"]["describe"] == "as it is"


def test_an_own_only_token_sees_nothing_of_others(
    browser: Browser, flows: Flows, stories: Scenario, token: Callable[..., str]
) -> None:
    privileges = ("read_job", "write_job", "approve_job", "read_feature")
    browser.sign_in(token(*privileges, forwho="somebody else", own_only=True))
    browser.find(".panel .empty", "No flow has run yet.")
    browser.press("/")
    browser.press("sa")
    browser.find(".hits", "Nothing begins with")
    names = (FAILED_BECAUSE, "llm-finetune", "matlab-sweep", "speech-nightly")
    shown = {
        "/jobs": ".empty",
        "/decisions": ".notice",
        "/flows": ".empty",
        "/plugins": ".plugin",
        "/features/licences": ".facts",
        f"/runs/{flows.failed}": "[role=alert]",
        "/flows/sales": "[role=alert]",
        "/flows/sales/edit": "[role=alert]",
        f"/jobs/{stories.suspended}": "[role=alert]",
    }
    for path, there in shown.items():
        browser.open(path)
        browser.find(there)
        text = browser.script("return document.querySelector('main').innerText")
        assert not [name for name in names if name in text], f"{path} shows {text}"
        assert "u1" not in text.split(), f"{path} shows somebody's name: {text}"


@pytest.mark.parametrize(("language", "size", "dark"), [("en", WIDE, False), ("zh", NARROW, True)])
def test_these_pages_are_accessible(
    admin: Browser, flows: Flows, language: str, size: tuple[int, int], dark: bool
) -> None:
    admin.open()
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
