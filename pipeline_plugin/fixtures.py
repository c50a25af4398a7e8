"""Fixtures for pytest, which loads them by itself where the kit is installed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import pytest

from pipeline_plugin.plugins import App
from pipeline_plugin.server import PluginServer


@pytest.fixture
def recorded_packet(request: pytest.FixtureRequest) -> Callable[[str], Any]:
    """Reads a packet from a file beside the test: `recorded_packet("packet.json")`."""
    folder = Path(request.path).parent

    def read(name: str) -> Any:
        return json.loads((folder / name).read_text(encoding="utf-8"))

    return read


@pytest.fixture
def serve_plugin() -> Iterator[Callable[[App], str]]:
    """Serves a plugin during the test, and gives its URL: `serve_plugin(gate)`."""
    servers: list[PluginServer] = []

    def serve(app: App) -> str:
        servers.append(PluginServer(app).start())
        return servers[-1].url

    yield serve
    for server in servers:
        server.stop()
