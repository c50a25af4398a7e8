"""The server of a plugin, in this process."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pipeline_plugin import Gate, Packet, passed
from pipeline_plugin.plugins import App
from pipeline_plugin.server import PluginServer
from tests.builders import taskset

BODY = json.dumps({"factors": {}, "header": {}, "job": taskset()}).encode()


@pytest.fixture
def start() -> Iterator[Callable[[App], PluginServer]]:
    servers: list[PluginServer] = []

    def start(app: App) -> PluginServer:
        servers.append(PluginServer(app).start())
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


def gate(decide: Callable[[Packet], Any] = lambda packet: passed()) -> Gate:
    made = Gate("g")
    made.decide(decide)
    return made


def connection(server: PluginServer) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(*server.server_address[:2], timeout=30)  # type: ignore[misc]


def test_a_connection_is_used_again(start: Callable[[App], PluginServer]) -> None:
    client = connection(start(gate()))
    for _ in range(3):
        client.request("POST", "/", BODY)
        answer = client.getresponse()
        assert (answer.status, answer.will_close) == (200, False)
        assert json.loads(answer.read())["decision"] == "pass"


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n", b"400"),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n", b"413"),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"411"),
        (b"POST / HTTX/1.1\r\n\r\n", b"400"),
        (b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", b"200"),
    ],
)
def test_each_request_gets_an_answer(start: Callable[[App], PluginServer], head: bytes, status: bytes) -> None:
    with socket.create_connection(start(gate()).server_address[:2], 30) as client:
        client.sendall(head)
        answer = client.makefile("rb").read()
    assert status in answer[:160]


def test_a_call_under_way_is_answered_when_the_server_stops(start: Callable[[App], PluginServer]) -> None:
    entered, go = threading.Event(), threading.Event()

    def decide(packet: Packet) -> Any:
        entered.set()
        go.wait(30)
        return passed()

    server = start(gate(decide))
    client = connection(server)
    client.request("POST", "/", BODY)
    entered.wait(30)
    assert not server.stop(grace=0)
    go.set()
    answer = client.getresponse()
    assert (answer.status, answer.will_close) == (200, True)
    assert server.stop()
    with pytest.raises(ConnectionRefusedError):
        connection(server).connect()
