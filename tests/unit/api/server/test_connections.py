from __future__ import annotations

from dataclasses import dataclass

from api.server.connections import Connections, Limits


@dataclass(eq=False)
class Client:
    """A connection."""

    network: str
    deadline: float = 0.0
    size: int = 0


def connections(connections: int = 100, of_a_client: int | None = None, bytes_held: int = 1000) -> Connections[Client]:
    return Connections(Limits(connections=connections, of_a_client=of_a_client, bytes_held=bytes_held))


def waiting(known: Connections[Client], *networks: str) -> list[Client]:
    """Connections of these clients, which wait since they were opened."""
    clients = [Client(network) for network in networks]
    for client in clients:
        known.opened(client)
        known.wait(client)
    return clients


def test_a_client_with_too_many_loses_the_one_that_has_waited_longest() -> None:
    known = connections(of_a_client=2)
    first, second = waiting(known, "a", "a")
    waiting(known, "b")
    known.opened(Client("a"))
    known.wait(first)
    assert known.surplus("b") is None
    assert known.surplus("a") is first
    known.closed(first)
    assert known.surplus("a") is None
    known.stop_waiting(second)
    known.opened(Client("a"))
    assert known.surplus("a") is None, "one that is served is not closed"


def test_without_a_limit_of_its_own_a_client_may_have_all() -> None:
    known = connections(connections=3)
    waiting(known, "proxy", "proxy", "proxy")
    assert known.surplus("proxy") is None


def test_with_too_many_in_all_the_client_with_most_waiting_ones_loses_one() -> None:
    known = connections(connections=4)
    _, oldest, *_ = waiting(known, "a", "b", "b", "c")
    known.opened(Client("a"))
    assert known.surplus("a") is oldest
    known.closed(oldest)
    assert known.surplus("a") is None


def test_when_requests_hold_too_much_the_largest_is_closed() -> None:
    known = connections(bytes_held=10)
    small, large, served = waiting(known, "a", "b", "c")
    known.stop_waiting(served)
    for client, size in ((small, 3), (large, 4), (served, 3)):
        known.hold(client, size)
    assert known.surplus("a") is None
    known.hold(small, 3)
    known.hold(served, 4)
    assert known.surplus("a") is large
    known.closed(large)
    assert known.surplus("a") is None
    known.hold(served, 11)
    known.hold(small, 0)
    assert known.surplus("a") is None, "nothing that waits holds anything"


def test_all_that_wait_are_known() -> None:
    known = connections()
    first, second, third = waiting(known, "a", "b", "a")
    known.stop_waiting(first)
    known.closed(second)
    assert known.waiting() == [third]
