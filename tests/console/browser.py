"""A real browser for tests: Debian's chromium without a window, and what is asked of the page that it shows."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import requests

from tests.waiting import HANG_SECONDS, wait_for

# Without the extra `test` these tests are skipped, with the reason; all others run.
HAS_SELENIUM = find_spec("selenium") is not None
if HAS_SELENIUM:
    from selenium.common.exceptions import TimeoutException
    from selenium.webdriver import Chrome, ChromeOptions, ChromeService
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.remote.webelement import WebElement
elif not TYPE_CHECKING:
    Keys = None

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
MISSING = (
    "selenium is not installed: pip install '.[test]'"
    if not HAS_SELENIUM
    else ""
    if CHROMIUM and DRIVER
    else "no chromium, or no chromedriver: apt-get install chromium chromium-driver"
)
AXE = Path(__file__).parent / "vendor" / "axe.js"
WIDE, NARROW = (1440, 900), (390, 844)

# Violations of the policy come as events: they are kept from the first on.
_KEEP_VIOLATIONS = """
    window.violations = [];
    addEventListener('securitypolicyviolation', (event) =>
        window.violations.push(`${event.effectiveDirective} ${event.blockedURI} ${event.sourceFile}`));
"""

# Looked for in the page at each change of it: asking from outside, again and again, takes far more CPU time. What is no change of
# the document, the focus for example, is seen at the end of LOOK_MS.
_FIND = """
    const [css, text, ms, done] = arguments;
    const find = () => [...document.querySelectorAll(css)].find((one) => one.textContent.includes(text)) ?? null;
    const end = (found) => {
        observer.disconnect();
        clearTimeout(timer);
        done(found);
    };
    const look = () => {
        const found = find();
        if (found) end(found);
    };
    const observer = new MutationObserver(look);
    observer.observe(document, { attributes: true, characterData: true, childList: true, subtree: true });
    const timer = setTimeout(() => end(find()), ms);
    look();
"""
LOOK_MS = 250


@dataclass
class Browser:
    """The browser, at one console."""

    driver: Chrome
    url: str

    def open(self, path: str = "/") -> None:
        """Load the document of a page."""
        self.driver.get(f"{self.url}{path}")

    def become(self, token: str) -> None:
        """Be who has signed in with a token, from the next document on, without loading a document with the form."""
        answer = requests.post(f"{self.url}/v1/session", json={"token": token}, timeout=HANG_SECONDS)
        assert answer.status_code == 200, answer.text
        for name, value in answer.cookies.items():
            cookie = {"name": name, "value": value, "url": self.url, "httpOnly": True, "sameSite": "Strict"}
            self.driver.execute_cdp_cmd("Network.setCookie", cookie)

    def sign_in(self, token: str, path: str = "/") -> None:
        """Open a page as who has signed in with a token."""
        self.become(token)
        self.open(path)
        self.find(".bar")

    def enter(self, token: str) -> None:
        """Sign in with a token at the page that asks for it."""
        self.find("#token").send_keys(token, Keys.ENTER)
        self.find(".bar")

    def forget(self) -> None:
        """Be as at first for the console: without its cookies, and what its pages have stored."""
        self.driver.execute_cdp_cmd("Network.clearBrowserCookies", {})
        self.driver.execute_cdp_cmd("Storage.clearDataForOrigin", {"origin": self.url, "storageTypes": "local_storage"})

    def find(self, css: str, text: str = "") -> WebElement:
        """The first element that a selector finds and that has this text, as soon as there is one."""
        try:
            found = wait_for(lambda: self._look_for(css, text), f"{css} with the text {text!r}")
        except AssertionError as missing:
            missing.add_note(self.seen())
            raise
        assert isinstance(found, WebElement)
        return found

    def _look_for(self, css: str, text: str) -> Any:
        try:
            return self.driver.execute_async_script(_FIND, css, text, LOOK_MS)
        except TimeoutException:
            # Another document has come meanwhile: the driver takes it for a script that does not end.
            return None

    def seen(self) -> str:
        """What the page shows now, and what the browser has complained of: why something was not found."""
        shown = self.script("return document.body.innerText")
        return f"{self.driver.current_url} shows:\n{shown}\nErrors: {self.errors()}"

    def wait_gone(self, css: str) -> None:
        """Wait until a selector finds nothing."""
        wait_for(lambda: not self.driver.find_elements(By.CSS_SELECTOR, css), f"{css} to be gone")

    def texts(self, css: str) -> list[str]:
        """The texts of all elements that a selector finds."""
        found: list[str] = self.script(
            "return [...document.querySelectorAll(arguments[0])].map((one) => one.textContent.trim())", css
        )
        return found

    def script(self, text: str, *arguments: Any) -> Any:
        """What a script in the page returns."""
        return self.driver.execute_script(text, *arguments)

    def press(self, *keys: str) -> None:
        """Press keys, wherever the focus is."""
        self.driver.switch_to.active_element.send_keys(*keys)

    def look(self, *, size: tuple[int, int] = WIDE, dark: bool = False) -> None:
        """Show the page at this size, by this scheme of colours."""
        metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})

    def speak(self, language: str) -> None:
        """Choose the language of the console, from the next document on."""
        self.script("localStorage.setItem('pipeline.language', arguments[0])", language)

    def violations_of_the_policy(self) -> list[str]:
        """What the document tried to do against its Content-Security-Policy."""
        found: list[str] = self.script("return window.violations ?? []")
        return found

    def errors(self) -> list[str]:
        """What the browser wrote to its console since this was last asked: errors of scripts and of requests."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]

    def accessibility_problems(self) -> list[str]:
        """What axe finds against WCAG 2.2 AA on the page."""
        if not self.script("return 'axe' in window"):
            self.script(AXE.read_text())
        found: list[str] = self.driver.execute_async_script(
            """
            const done = arguments[arguments.length - 1];
            const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
            const options = { runOnly: { type: 'tag', values: tags }, resultTypes: ['violations'] };
            axe.run(document, options).then(({ violations }) => done(violations.flatMap(
                ({ id, help, nodes }) => nodes.map(({ html, failureSummary }) => `${id}: ${help}: ${html} ${failureSummary}`))));
            """
        )
        return found

    def requested(self) -> list[dict[str, Any]]:
        """All that the document has loaded so far: `name`, and `encodedBodySize` in bytes."""
        found: list[dict[str, Any]] = self.script(
            "return performance.getEntries().filter((one) => ['resource', 'navigation'].includes(one.entryType))"
            ".map(({ name, encodedBodySize, initiatorType }) => ({ name, encodedBodySize, initiatorType }))"
        )
        return found

    def picture(self, path: Path) -> None:
        """Write what is seen as a PNG."""
        path.parent.mkdir(parents=True, exist_ok=True)
        assert self.driver.save_screenshot(str(path))


@contextmanager
def chromium(directory: Path) -> Iterator[Chrome]:
    """A browser with a profile of its own, that is ended at the end."""
    options = ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for argument in (
        "--headless=new",
        # Root has no sandbox, and what is opened is the service's own.
        "--no-sandbox",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        "--no-first-run",
        "--disable-background-networking",
        # Each document has a process; one more is not started before there is another document.
        "--disable-features=SpareRendererForSitePerProcess",
        "--lang=en",
        f"--user-data-dir={directory}",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = Chrome(options=options, service=ChromeService(str(DRIVER)))
    try:
        driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": _KEEP_VIOLATIONS})
        yield driver
    finally:
        driver.quit()
