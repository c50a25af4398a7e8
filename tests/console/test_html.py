"""Logs that try to be HTML are shown as text, and run nothing."""

from __future__ import annotations

from tests.builders import taskset
from tests.console.browser import Browser
from tests.console.probes import probing
from tests.console.scenario import HTML
from tests.installation import Installation

NOTE_ALERTS = "window.alerts = []; window.alert = (text) => alerts.push(text);"
MADE = "main img, main script, main iframe, main object, main svg[onload], main [onerror], main a[href^='javascript:']"


def assert_harmless(browser: Browser) -> None:
    assert browser.script("return alerts") == []
    assert browser.script("return document.querySelectorAll(arguments[0]).length", MADE) == 0
    assert browser.violations_of_the_policy() == []
    assert browser.errors() == []


def test_html_in_logs_is_shown_as_text(admin: Browser, service: Installation) -> None:
    job = service.submit(taskset("cat <<'END'\n" + "\n".join(HTML) + "\nEND\n"), name="html-in-logs")
    service.wait_state(job, "succeeded")
    with probing(admin, NOTE_ALERTS):
        admin.open(f"/jobs/{job}")
        for text in HTML:
            admin.find(".log-text", text)
        admin.find(".logs input[type=search]").send_keys(HTML[0])
        admin.find(".log-target mark", HTML[0])
        assert admin.texts(".log-text") == [*HTML]
        assert_harmless(admin)
