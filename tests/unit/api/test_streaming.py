from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from api.streaming import Reader

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture(params=["unix", "tcp"])
def connection(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """The server's side, and the client's."""
    if request.param == "unix":
        ours, theirs = socket.socketpair()
    else:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            theirs = socket.create_connection(listening.getsockname())
            ours, _ = listening.accept()
    with ours, theirs:
        yield ours, theirs


def test_a_reader_that_stays_is_not_gone_whatever_it_sends(connection: Pair) -> None:
    ours, theirs = connection
    reader = Reader({"gunicorn.socket": ours})
    assert not reader.gone
    theirs.sendall(b"GET /next HTTP/1.1\r\n")
    assert not reader.gone


def test_a_reader_that_closed_the_connection_is_gone_whatever_it_sent(connection: Pair) -> None:
    ours, theirs = connection
    theirs.sendall(b"GET /next HTTP/1.1\r\n")
    theirs.close()
    assert Reader({"gunicorn.socket": ours}).gone


def test_nothing_is_known_of_readers_where_the_server_hides_its_connections() -> None:
    assert not Reader({}).gone
