"""Pages of the console in a real browser: from the request of the document until what it is about is drawn, nothing cached."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import psycopg2

from scripts.benchmarks.results import Result, Unmeasurable
from scripts.benchmarks.scale import Scale
from scripts.benchmarks.stand import Stand, a_token, standing
from scripts.benchmarks.stored import fill
from scripts.benchmarks.stored_runs import begin_run, store_flow
from tests.console.browser import MISSING, Browser, chromium
from tests.console.probes import LARGEST_PAINT, LONG_TASKS, log_of, probing
from tests.waiting import wait_for

NAME = "console_pages_ms"
GOAL_PAINT, GOAL_TASK = 1000.0, 100.0
LOG_LINES, LONG_LINE = 100_000, 1024 * 1024
SETTLE_SECONDS = 0.5

_DRAWN = """{
    window.drawn = null;
    const observer = new MutationObserver(() => {
        if (!document.querySelector(SELECTOR)) return;
        observer.disconnect();
        requestAnimationFrame(() => requestAnimationFrame(() => { drawn = performance.now(); }));
    });
    observer.observe(document, { childList: true, subtree: true });
}"""
"""The second frame begins when the first is painted."""


@dataclass(frozen=True)
class Case:
    """A page, what is there once it can be used, and the most milliseconds that may take."""

    path: str
    selector: str
    goal: float


def measure(scale: Scale) -> Result:
    """Each page some times; the worst of each counts, and the row is the page that takes longest."""
    if MISSING:
        raise Unmeasurable(MISSING)
    with standing() as stand, tempfile.TemporaryDirectory(prefix="pipeline-bench-") as profile:
        fill(stand, scale.stored)
        cases = _cases(stand, scale.tasks)
        stand.start_service("api")
        with chromium(Path(profile)) as driver:
            browser = Browser(driver, stand.url)
            browser.look()
            browser.sign_in(a_token())
            found = {name: _figures(browser, case, scale.rounds) for name, case in cases.items()}
            task = max(_longest_task(browser, f"/jobs/{_a_job(stand)}") for _ in range(scale.rounds))
    slowest = max(found.values(), key=lambda figures: figures["ms"])
    paint = max(found[name]["paint_ms"] for name in ("home", "jobs"))
    return Result(
        name=NAME,
        value=slowest["ms"],
        unit="ms",
        goal=", ".join(f"{name} {case.goal:g} ms" for name, case in cases.items())
        + f", largest paint {GOAL_PAINT:g} ms, longest task of a log of {LOG_LINES:,} lines {GOAL_TASK:g} ms",
        met=all(found[name]["ms"] <= case.goal for name, case in cases.items())
        and paint <= GOAL_PAINT
        and task <= GOAL_TASK,
        samples=scale.rounds,
        more={"jobs": scale.stored, "cases": found, "paint_ms": paint, "log_task_ms": task},
    )


def _cases(stand: Stand, tasks: int) -> dict[str, Case]:
    runs = {count: begin_run(store_flow(f"wide-{count}", _wide(count))) for count in (tasks, 5 * tasks)}
    graph = "/runs/{}?view=graph"
    return {
        "home": Case("/", ".verdict h2", 1000.0),
        "jobs": Case("/jobs", "tbody tr", 1000.0),
        "tasks": Case(graph.format(runs[tasks]), ".graph-node", 1500.0),
        "five_times_the_tasks": Case(graph.format(runs[5 * tasks]), ".graph-node", 4000.0),
    }


def _wide(tasks: int) -> dict[str, Sequence[str]]:
    """One task, all others but one beside each other, and one that waits for all of these."""
    middle = [f"part-{number}" for number in range(tasks - 2)]
    return {"prepare": [], **{name: ["prepare"] for name in middle}, "publish": middle}


def _figures(browser: Browser, case: Case, rounds: int) -> dict[str, float]:
    took, painted = [], []
    with probing(browser, LARGEST_PAINT, _DRAWN.replace("SELECTOR", repr(case.selector))):
        # The first one warms the service up.
        for _ in range(1 + rounds):
            browser.driver.execute_cdp_cmd("Network.clearBrowserCache", {})
            browser.open(case.path)
            took.append(wait_for(lambda: browser.script("return window.drawn"), case.path))
            time.sleep(SETTLE_SECONDS)
            painted.append(browser.script("return window.largestPaint"))
    return {"ms": max(took[1:]), "median_ms": statistics.median(took[1:]), "paint_ms": max(painted[1:])}


def _longest_task(browser: Browser, path: str) -> float:
    """What kept the page of a job longest from answering, in ms, once its log began to come: less than 50 counts as 0."""
    with probing(browser, LONG_TASKS, log_of(LOG_LINES, LONG_LINE)):
        browser.open(path)
        wait_for(
            lambda: "the end" in "".join(browser.texts(".log-text")),
            "the log",
            progress=lambda: browser.texts(".count"),
        )
        browser.find(".logs .check", "Wrap").click()
        time.sleep(SETTLE_SECONDS)
        tasks = browser.script("return longTasks.filter(({ startTime }) => startTime > logsAskedAt)")
    return float(max((task["duration"] for task in tasks), default=0.0))


def _a_job(stand: Stand) -> str:
    """A job that has reached a cluster, so that its page has logs."""
    with closing(psycopg2.connect(stand.database_url)) as connection, connection, connection.cursor() as cursor:
        cursor.execute(
            "UPDATE job_documents SET platform = '{}' WHERE job_id = (SELECT max(id) FROM jobs WHERE state = 'succeeded') "
            "RETURNING job_id"
        )
        (job,) = cursor.fetchone() or ("",)
    return str(job)
