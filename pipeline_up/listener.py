"""The socket that the API serves.

`pipeline up` binds it and passes it to the API, so that a port in use is noticed before anything is started, and
requests wait in the backlog instead of being refused while the API restarts.
"""

from __future__ import annotations

import http.client
import ipaddress
import socket

from pipeline_core.errors import ConfigurationError

PROBE_SECONDS = 2.0


class Listener:
    """A bound socket. Port 0 takes any free one. Raises ConfigurationError when the address cannot be bound."""

    def __init__(self, host: str, port: int) -> None:
        try:
            family, kind, _, _, address = socket.getaddrinfo(
                host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
        except socket.gaierror as error:
            raise ConfigurationError(f"There is no address {host}: {error.strerror}.") from error
        self.socket = socket.socket(family, kind)
        try:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.socket.bind(address)
            # With SO_REUSEADDR, a conflict shows at listen() only.
            self.socket.listen(socket.SOMAXCONN)
        except OSError as error:
            self.socket.close()
            raise ConfigurationError(f"Cannot listen on {host} port {port}: {error.strerror}.") from error

    @property
    def fileno(self) -> int:
        return self.socket.fileno()

    @property
    def port(self) -> int:
        return int(self.socket.getsockname()[1])

    @property
    def loopback(self) -> bool:
        """Whether it is bound to a loopback address."""
        return self._address.is_loopback

    @property
    def url(self) -> str:
        """Its URL on this machine; for a socket bound to all addresses, the one with the loopback address."""
        address = self._address
        if address.is_unspecified:
            address = ipaddress.ip_address("127.0.0.1" if address.version == 4 else "::1")
        return f"http://{address}:{self.port}" if address.version == 4 else f"http://[{address}]:{self.port}"

    @property
    def _address(self) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
        return ipaddress.ip_address(self.socket.getsockname()[0])

    def answers(self, path: str) -> bool:
        """Whether a GET of the path is answered with 200."""
        connection = http.client.HTTPConnection(self.url.removeprefix("http://"), timeout=PROBE_SECONDS)
        try:
            connection.request("GET", path)
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def close(self) -> None:
        self.socket.close()
