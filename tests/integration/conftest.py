"""Fixtures for tests that stand on real servers."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline_core.flows.runs import run_signals
from pipeline_core.settings import Settings, settings


@pytest.fixture
def service_settings(
    database_url: str,
    redis_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fresh_runtime: Callable[[], None],
) -> Settings:
    """This process as one of the service's own: its database and Redis, the null cluster, all in this test's bounds."""
    environment = {
        "DATABASE_URL": database_url,
        "REDIS_URL": redis_url,
        "REDIS_PREFIX": f"{tmp_path.name}:",
        "DATA_DIR": str(tmp_path),
        "SECRET_KEY": base64.urlsafe_b64encode(b"k" * 32).decode(),
        "CLUSTER_DRIVER": "null",
        "DEVELOPMENT": "1",
    }
    for name, value in environment.items():
        monkeypatch.setenv(f"PIPELINE_{name}", value)
    run_signals.listen()
    return settings()
