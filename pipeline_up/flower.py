"""Flower, a web UI for Celery tasks. It can also end tasks and workers, so it listens on the loopback address only, and
always requires a password."""

from __future__ import annotations

import http.client
import secrets
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from pipeline_core.errors import ConfigurationError
from pipeline_up.environment import kept
from pipeline_up.service import Service
from workers import processes

HOST = "127.0.0.1"
USER = "admin"
# Variables that would weaken its authentication, and secrets that it does not need: it reads Redis only.
WITHHELD = ("FLOWER_", "PIPELINE_SECRET_KEY", "PIPELINE_DATABASE_URL", "PIPELINE_ADMIN_PASSWORD", "PIPELINE_FLOWER_")
PROBE_SECONDS = 2.0


def check() -> None:
    """Raises ConfigurationError when Flower is not installed."""
    if find_spec("flower") is None:
        raise ConfigurationError("Flower is not installed; `pip install 'pipeline-service[flower]'` brings it.")


def password(configured: str, data_dir: Path) -> str:
    """The configured password, else the data directory's own, created at the first call.

    Raises ConfigurationError for one that cannot be passed to Flower.
    """
    if "," in configured:
        raise ConfigurationError(
            "PIPELINE_FLOWER_PASSWORD must have no comma in it: Flower takes what follows for another."
        )
    return configured or kept(data_dir / "flower.password", lambda: secrets.token_urlsafe(24))


def flower(environment: Mapping[str, str], port: int, password: str) -> Service:
    """Flower as a service of the supervisor. The password is in its environment, not in its command line."""
    given = {name: value for name, value in environment.items() if not name.startswith(WITHHELD)}
    return Service(
        name="flower",
        argv=processes.flower(HOST, port),
        env={**given, "FLOWER_BASIC_AUTH": f"{USER}:{password}"},
        ready=lambda seconds: answers(port),
    )


def answers(port: int) -> bool:
    """Whether a server that requires a password answers at the port."""
    connection = http.client.HTTPConnection(HOST, port, timeout=PROBE_SECONDS)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status == 401
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
