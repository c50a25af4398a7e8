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


LOOKS = [("en", WIDE, False), ("en", NARROW, True), ("zh", NARROW, False), ("zh", WIDE, True)]
"""Language, size, and whether it is dark: each of a kind with each of both others."""


@pytest.mark.parametrize(("language", "size", "dark"), LOOKS)
def test_pages_are_accessible_and_keep_to_the_policy(
    admin: Browser, stories: Scenario, html_job: str, language: str, size: tuple[int, int], dark: bool
) -> None:
    admin.speak(language)
    admin.look(size=size, dark=dark)
    for path, there in PAGES.items():
        admin.open(path.format(**asdict(stories), html_job=html_job))
        admin.find(there)
        assert admin.accessibility_problems() == [], path
        assert admin.violations_of_the_policy() == [], path
        assert admin.errors() == [], path
        wide = admin.script("return document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, f"{path} is {wide} px too wide at {size}"


def test_signing_in_is_accessible(browser: Browser) -> None:
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
