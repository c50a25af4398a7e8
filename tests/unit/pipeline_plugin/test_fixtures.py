"""The fixtures for pytest."""

from __future__ import annotations

import http.client
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pipeline_plugin import Gate
from pipeline_plugin.fixtures import recorded_packet, serve_plugin
from pipeline_plugin.plugins import App

__all__ = ["recorded_packet", "serve_plugin"]


def test_a_plugin_is_served(serve_plugin: Callable[[App], str]) -> None:
    client = http.client.HTTPConnection(urlsplit(serve_plugin(Gate("g"))).netloc, timeout=30)
    client.request("GET", "/healthz")
    assert client.getresponse().status == 200


def test_a_packet_is_read_from_beside_the_test(recorded_packet: Callable[[str], Any]) -> None:
    name = "recorded.json"
    path = Path(__file__).with_name(name)
    path.write_text('{"factors": {}}')
    try:
        assert recorded_packet(name) == {"factors": {}}
    finally:
        path.unlink()
