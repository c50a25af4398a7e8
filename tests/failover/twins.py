"""Two of each process that there is usually one of."""

from __future__ import annotations

from dataclasses import replace

from tests.installation import Installation

TWICE = ("api", "flows", "housekeeping", "beat", "watcher")
ALL = ("api2", "stages1", "stages2", "hooks1", *(f"{name}{twin}" for name in TWICE[1:] for twin in ("", "2")))
"""All processes of the installation but the first API."""


def doubled(service: Installation) -> None:
    """Add a second of each process that an installation has one of. Both APIs accept connections on the same socket."""
    for name in TWICE:
        one = service.services[name]
        argv = [word.replace(f"{name}@", f"{name}2@").replace("/run/beat", "/run/beat2") for word in one.argv]
        service.services[f"{name}2"] = replace(one, name=f"{name}2", argv=argv)
