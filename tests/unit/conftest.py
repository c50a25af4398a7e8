"""Unit tests start no process."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def no_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail a test that starts a process: it belongs to tests/integration."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a unit test starts a process: move it to tests/integration")

    monkeypatch.setattr(subprocess.Popen, "__init__", refuse)
