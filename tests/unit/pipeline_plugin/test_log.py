"""Logs as JSON."""

from __future__ import annotations

import json
import logging
import sys

from pipeline_plugin.log import CALL, JsonFormatter


def record(error: bool = False) -> logging.LogRecord:
    raised = None
    if error:
        try:
            raise ValueError("no quota")
        except ValueError:
            raised = sys.exc_info()
    return logging.LogRecord("x", logging.ERROR, "f.py", 1, "it %s", ("failed",), raised)


def test_a_line_names_time_level_and_call() -> None:
    token = CALL.set({"jobID": "j1"})
    try:
        line = json.loads(JsonFormatter().format(record()))
    finally:
        CALL.reset(token)
    assert line.pop("time").endswith("Z")
    assert line == {"level": "error", "message": "it failed", "jobID": "j1"}


def test_a_line_has_the_traceback() -> None:
    assert "ValueError: no quota" in json.loads(JsonFormatter().format(record(error=True)))["traceback"]
