"""One installation and one browser for all tests of this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.console import scenario
from tests.console.browser import MISSING, Browser, chromium
from tests.console.scenario import Flows, Scenario
from tests.installation import Installation, installed
from tests.plugin_server import PluginServer, serving
from tests.servers import fresh_database
from tests.waiting import wait_for

if TYPE_CHECKING:
    from selenium.webdriver import Chrome


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Without a browser nothing here can run."""
    if MISSING:
        for item in items:
            if Path(__file__).parent in item.path.parents:
                item.add_marker(pytest.mark.skip(reason=MISSING))


@pytest.fixture(scope="package")
def service(
    tmp_path_factory: pytest.TempPathFactory, postgres_url: str, migrated_database: str, redis_url: str
) -> Iterator[Installation]:
    """An installation in which everything runs."""
    directory = tmp_path_factory.mktemp("console")
    with (
        fresh_database(postgres_url, template=migrated_database) as database_url,
        installed(
            directory, database_url, redis_url, split=False, PIPELINE_HOOK_RETRY_MIN_SECONDS="0.2"
        ) as installation,
    ):
        installation.start()
        wait_for(lambda: installation.ask("GET", "/readyz").status_code == 200, "the API")
        yield installation
        scenario.stop_all(installation)


@pytest.fixture(scope="package")
def plugins() -> Iterator[PluginServer]:
    with serving() as server:
        yield server


@pytest.fixture(scope="package")
def stories(service: Installation, plugins: PluginServer) -> Scenario:
    """Jobs with something to see: stored once, for tests that change none of them."""
    return scenario.make(service, plugins)


@pytest.fixture(scope="package")
def flows(service: Installation) -> Flows:
    """Flows, and runs of them: stored once, for tests that change none of them."""
    return scenario.make_flows(service)


@pytest.fixture(scope="package")
def html_job(service: Installation, plugins: PluginServer) -> str:
    """The ID of a job whose texts try to be HTML."""
    return scenario.make_html(service, plugins)


@pytest.fixture(scope="package")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    with chromium(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


@pytest.fixture
def browser(driver: Chrome, service: Installation) -> Iterator[Browser]:
    """The browser, in which nobody has signed in and no page is open. At the end nothing may have been against the policy of
    the page."""
    browser = Browser(driver, service.url)
    browser.forget()
    browser.look()
    browser.errors()
    yield browser
    assert browser.violations_of_the_policy() == []
    driver.get("about:blank")


@pytest.fixture
def admin(browser: Browser) -> Browser:
    """The browser, in which the admin has signed in and no page is open."""
    browser.become("admin")
    return browser


@pytest.fixture
def token(service: Installation) -> Callable[..., str]:
    """A new token of these privileges, for somebody."""

    def make(*privileges: str, forwho: str = "ann", own_only: bool = False) -> str:
        body = {"privileges": list(privileges), "forwho": forwho, "ownOnly": own_only}
        return str(service.post("/v1/tokens", body)["token"])

    return make
