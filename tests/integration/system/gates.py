"""The example gates, started as their pages say."""

from __future__ import annotations

import socket
from collections.abc import Callable

import yaml

from tests.installation import Installation
from tests.pages import ROOT

GATES = ROOT / "examples" / "gates"

Start = Callable[..., str]


def listens(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


def register(service: Installation, file: str, address: str) -> str:
    """Register the feature in the file, with the plugin at this address; the plugin's key."""
    feature = yaml.safe_load((GATES / file).read_text())
    (plugin,) = feature["plugins"]
    service.post("/v1/features", {**feature, "plugins": [{**plugin, "callAddress": address}]})
    service.put(f"/v1/features/turn-on/{feature['name']}")
    return f"AccessGate.{feature['name']}.{feature['author']}"
