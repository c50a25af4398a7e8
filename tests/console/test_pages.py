"""Every page, in both languages, light and dark, wide and narrow: nothing against the policy or WCAG, nothing cut."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from api.console.assets import FOLDER
from tests.console.browser import NARROW, WIDE, Browser
from tests.console.scenario import Scenario

PAGES = {
    "/": ".verdict h2",
    "/jobs": "tbody tr",
    "/jobs/{decorated}": ".log-row",
    "/jobs/{suspended}": ".decision",
    "/jobs/{conflicting}": ".decision",
    "/jobs/{hundred}": ".marks",
    "/jobs/{html_job}": ".decision",
    "/decisions": ".suspended",
    "/plugins": ".plugin",
    "/plugins/register": ".what-if",
    "/features/licences": ".facts",
    "/features/budget/replace": ".what-if",
    "/operations": ".verdict h2",
    "/operations?view=deliveries&status=all": "tbody tr",
    "/operations?view=audit": ".audit-row",
    "/operations?view=tokens": ".panel h2",
    "/submit": ".submit-form",
}
"""Path, and what is there once the page has what it shows."""


LOOKS = {"en": ((WIDE, False), (NARROW, True)), "zh": ((NARROW, False), (WIDE, True))}
"""By language: size, and whether it is dark; each of a kind with each of both others. A page is loaded with the first."""


@pytest.mark.parametrize("language", LOOKS)
def test_pages_are_accessible_and_keep_to_the_policy(
    admin: Browser, stories: Scenario, html_job: str, language: str
) -> None:
    admin.open()
    admin.speak(language)
    for path, there in PAGES.items():
        first, *others = LOOKS[language]
        admin.look(size=first[0], dark=first[1])
        admin.open(path.format(**asdict(stories), html_job=html_job))
        admin.find(there)
        assert_right(admin, f"{path} in {language}, {first}")
        for size, dark in others:
            admin.look(size=size, dark=dark)
            assert_right(admin, f"{path} in {language}, {(size, dark)}")


def assert_right(browser: Browser, what: str) -> None:
    """The page that is shown is accessible, keeps to the policy, and is not too wide."""
    assert browser.accessibility_problems() == [], what
    assert browser.violations_of_the_policy() == [], what
    assert browser.errors() == [], what
    wide = browser.script("return document.documentElement.scrollWidth - innerWidth")
    assert wide <= 0, f"{what} is {wide} px too wide"


def test_signing_in_is_accessible(browser: Browser) -> None:
    browser.open()
    for dark in (False, True):
        browser.look(dark=dark)
        browser.find("#token")
        assert browser.accessibility_problems() == []


def test_the_first_load_is_small_and_asks_nobody_else(admin: Browser, stories: Scenario) -> None:
    admin.open("/")
    admin.find(".verdict h2")
    requested = admin.requested()
    assert {name.startswith(admin.url) for name in (one["name"] for one in requested)} == {True}
    own = [one for one in requested if "/v1/" not in one["name"]]
    assert sum(one["encodedBodySize"] for one in own) <= 100 * 1024
    assert len(own) > 10, "files come from the browser's memory, and are not counted"


def test_each_module_of_a_page_is_loaded_when_it_is_opened(admin: Browser, stories: Scenario) -> None:
    admin.open("/")
    admin.find(".verdict h2")
    assert not [one for one in admin.requested() if "/pages/job" in one["name"]]
    assert (FOLDER / "app/pages/job.js").exists()
    admin.find("nav a", "Jobs").click()
    admin.find("tbody tr")
    assert [one for one in admin.requested() if one["name"].endswith("/pages/jobs.js")]


def test_html_in_names_and_reasons_is_shown_as_text(admin: Browser, html_job: str) -> None:
    for path in ("/", "/jobs", f"/jobs/{html_job}"):
        admin.open(path)
        admin.find("main", "<img src=x onerror=alert(1)>")
        assert admin.script("return document.querySelectorAll('main img, main script, main svg[onload]').length") == 0
    admin.find(".decision", "<script>alert(1)</script>")
    assert admin.violations_of_the_policy() == []
