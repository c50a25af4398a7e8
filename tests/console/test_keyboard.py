"""From submitting a job to resuming it, by the keyboard alone."""

from __future__ import annotations

import json

from tests.builders import taskset
from tests.console.browser import Browser, Keys
from tests.console.scenario import GATE_REASON, Scenario
from tests.waiting import wait_for

MOST_TABS = 60


def tab_to(browser: Browser, css: str, text: str = "") -> None:
    """Press Tab until the focus is on an element that a selector finds and that has this text."""
    script = """
        const [css, text] = arguments;
        return document.activeElement.matches(css) && document.activeElement.textContent.includes(text);
    """
    for _ in range(MOST_TABS):
        if browser.script(script, css, text):
            return
        browser.press(Keys.TAB)
    raise AssertionError(f"{css} with the text {text!r} is not reached by pressing Tab {MOST_TABS} times")


def test_a_job_is_submitted_suspended_and_resumed(browser: Browser, stories: Scenario) -> None:
    browser.open()
    browser.find("#token")
    browser.press("admin", Keys.ENTER)
    browser.find(".bar")
    tab_to(browser, "nav a", "Submit")
    browser.press(Keys.ENTER)
    browser.find(".submit-form")
    tab_to(browser, ".json-editor textarea")
    browser.press(json.dumps(taskset()))
    tab_to(browser, ".submit-fields label:nth-of-type(1) input")
    browser.press("ann", Keys.TAB, "by-the-keyboard")
    tab_to(browser, "#submit-header")
    browser.press("budget=yes")
    browser.find(".submit-plan", "AccessGate.budget.tests")
    tab_to(browser, "button.primary", "Submit")
    wait_for(lambda: browser.script("return document.activeElement.ariaDisabled") == "false", "the plan")
    browser.press(Keys.ENTER)
    browser.find("h1", "by-the-keyboard")
    browser.find(".why", GATE_REASON)
    tab_to(browser, "button.primary", "Resume")
    browser.press(Keys.ENTER)
    browser.find("dialog textarea:focus")
    browser.press("granted", Keys.TAB, Keys.TAB, Keys.ENTER)
    browser.wait_gone("dialog")
    browser.find(".decision", "resumed by admin")
    browser.find(".job-head .state", "succeeded")
