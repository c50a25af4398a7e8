"""All open connections of a worker, and which of them is closed when there are too many."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar


class Connection(Protocol):
    """What is known of a connection here: whom it belongs to, and for how long it may wait."""

    network: str
    deadline: float
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How many connections may be open, in all and from one client (None: no limit of its own), and how many bytes of
    requests they may hold together."""

    connections: int
    of_a_client: int | None
    bytes_held: int


C = TypeVar("C", bound=Connection)


class Connections(Generic[C]):
    """The open connections. Those that wait for their client may be closed, to make room; those that are served may not."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._count = 0
        self._open: Counter[str] = Counter()
        self._waiting: dict[str, dict[C, None]] = {}
        self._bytes = 0

    def opened(self, connection: C) -> None:
        """Count a connection that was accepted."""
        self._count += 1
        self._open[connection.network] += 1

    def closed(self, connection: C) -> None:
        """Forget a connection, and what it holds."""
        self.stop_waiting(connection)
        self.hold(connection, 0)
        self._count -= 1
        self._open[connection.network] -= 1
        if not self._open[connection.network]:
            del self._open[connection.network]

    def hold(self, connection: C, size: int) -> None:
        """Note how many bytes of its request the connection holds."""
        self._bytes += size - connection.size
        connection.size = size

    def wait(self, connection: C) -> None:
        """Note that the connection waits for its client; it keeps its place if it did so already."""
        self._waiting.setdefault(connection.network, {})[connection] = None

    def stop_waiting(self, connection: C) -> None:
        """Note that the connection does not wait for its client any more."""
        waiting = self._waiting.get(connection.network, {})
        waiting.pop(connection, None)
        if not waiting:
            self._waiting.pop(connection.network, None)

    def waiting(self) -> list[C]:
        """All that wait for their client."""
        return [connection for connections in self._waiting.values() for connection in connections]

    def surplus(self, network: str) -> C | None:
        """The waiting connection that is to be closed now that this client has a new one, or has sent more; None: none.

        A client with too many connections loses the one that has waited longest. If there are too many in all, the client
        with most waiting ones does; if they hold too much, the connection that holds most is closed.
        """
        limits = self._limits
        if limits.of_a_client is not None and self._open[network] > limits.of_a_client and network in self._waiting:
            return next(iter(self._waiting[network]))
        if self._count > limits.connections and self._waiting:
            heaviest = max(self._waiting, key=lambda name: len(self._waiting[name]))
            return next(iter(self._waiting[heaviest]))
        if self._bytes > limits.bytes_held and self._waiting:
            largest = max(self.waiting(), key=lambda connection: connection.size)
            return largest if largest.size else None
        return None
