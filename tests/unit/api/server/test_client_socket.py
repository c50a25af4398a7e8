from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from api.server import client_socket
from api.server.client_socket import KEPT_BYTES, ClientSocket

Pair = tuple[ClientSocket, socket.socket]


@pytest.fixture
def sockets() -> Iterator[Pair]:
    """The server's side, and the client's."""
    accepted, client = socket.socketpair()
    with ClientSocket(accepted) as ours, client:
        yield ours, client


def received(client: socket.socket, size: int) -> bytes:
    return client.recv(size, socket.MSG_WAITALL)


def test_what_the_client_does_not_read_is_kept_and_sent_later(sockets: Pair) -> None:
    ours, client = sockets
    answer = bytes(range(256)) * (KEPT_BYTES // 256)
    ours.setblocking(True)
    ours.sendall(b"head")
    ours.sendall(answer)
    assert not ours.flush()
    came = b""
    while len(came) < 4 + len(answer):
        came += client.recv(KEPT_BYTES)
        ours.flush()
    assert came == b"head" + answer
    assert ours.flush()


def test_more_than_is_kept_waits_for_the_client(sockets: Pair) -> None:
    ours, client = sockets
    answer = b"x" * 5 * KEPT_BYTES
    thread = threading.Thread(target=ours.sendall, args=(answer,))
    thread.start()
    came = received(client, 4 * KEPT_BYTES)
    thread.join()
    while not ours.flush():
        came += client.recv(KEPT_BYTES)
    assert len(came + received(client, len(answer) - len(came))) == len(answer)


def test_of_a_stream_nothing_is_kept(sockets: Pair) -> None:
    ours, client = sockets
    ours.stream()
    thread = threading.Thread(target=ours.sendall, args=(b"x" * KEPT_BYTES,))
    thread.start()
    came = received(client, KEPT_BYTES)
    thread.join()
    assert len(came) == KEPT_BYTES
    assert ours.flush()


def test_a_client_that_reads_nothing_is_given_up(sockets: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, _ = sockets
    monkeypatch.setattr(client_socket, "STALL_SECONDS", 0.01)
    with pytest.raises(ConnectionError):
        ours.sendall(b"x" * 4 * KEPT_BYTES)


def test_a_client_that_left_is_noticed(sockets: Pair) -> None:
    ours, client = sockets
    ours.sendall(b"x" * KEPT_BYTES)
    client.close()
    with pytest.raises(OSError):
        ours.flush()
