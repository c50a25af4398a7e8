"""The service's own log lines."""

from __future__ import annotations

import json
import logging

import pytest
import structlog

from pipeline_core.common import log
from pipeline_core.settings import Settings


@pytest.fixture(autouse=True)
def _keep_logging() -> object:
    root = logging.getLogger()
    kept = root.handlers[:], root.level
    yield
    root.handlers[:], level = kept
    root.setLevel(level)
    structlog.reset_defaults()


def failing(password: str) -> None:
    structlog.get_logger("test").error("failed", exc_info=ValueError("a clear sentence"))
    try:
        raise KeyError(len(password))
    except KeyError:
        structlog.get_logger("test").exception("failed again")


@pytest.mark.parametrize("form", ["json", "console"])
def test_an_exception_is_logged_without_the_values_of_its_variables(
    form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    log.configure(Settings(log_format=form))
    failing("correct horse battery staple")
    written = capsys.readouterr().err
    assert "a clear sentence" in written
    assert "KeyError" in written
    assert "horse" not in written


def test_lines_carry_the_ids_that_were_bound(capsys: pytest.CaptureFixture[str]) -> None:
    log.configure(Settings())
    with structlog.contextvars.bound_contextvars(job_id="j1", request_id="r1"):
        structlog.get_logger("test").info("done")
        logging.getLogger("a.library").warning("hm")
    ours, theirs = map(json.loads, capsys.readouterr().err.splitlines())
    assert (ours["job_id"], ours["request_id"], ours["event"]) == ("j1", "r1", "done")
    assert (theirs["job_id"], theirs["event"], theirs["level"]) == ("j1", "hm", "warning")
