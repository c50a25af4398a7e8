from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from api.streaming import ClientConnection, StreamSlots
from pipeline_core.errors import Unavailable

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


def test_an_open_connection_is_not_closed_whatever_the_client_sends(connection: Pair) -> None:
    ours, theirs = connection
    client = ClientConnection({"gunicorn.socket": ours})
    assert not client.closed
    theirs.sendall(b"GET /next HTTP/1.1\r\n")
    assert not client.closed


def test_a_connection_closed_by_the_client_is_noticed_despite_unread_data(connection: Pair) -> None:
    ours, theirs = connection
    theirs.sendall(b"GET /next HTTP/1.1\r\n")
    theirs.close()
    assert ClientConnection({"gunicorn.socket": ours}).closed


def test_a_connection_that_the_server_does_not_expose_counts_as_open() -> None:
    assert not ClientConnection({}).closed


def test_one_user_has_at_most_half_of_the_streams() -> None:
    slots = StreamSlots("log followers", 4)
    first, _ = slots.take("ann"), slots.take("ann")
    with pytest.raises(Unavailable, match='of "ann"'):
        slots.take("ann")
    for user in ("bob", "cid"):
        slots.take(user)
    first()
    slots.take("dan")
    with pytest.raises(Unavailable, match="4 log followers already"):
        slots.take("eve")


def test_where_there_is_one_stream_a_user_may_have_it() -> None:
    slots = StreamSlots("log readers", 1)
    slots.take("ann")()
    slots.take("ann")
    with pytest.raises(Unavailable):
        slots.take("bob")
