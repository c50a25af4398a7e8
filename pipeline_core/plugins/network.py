"""Which addresses may be called, and connections to exactly the address that was checked.

A name is resolved once, when a connection is made; all of its addresses are checked, and the connection is made to one of
them. This protects against DNS rebinding. The Host header and the TLS handshake still use the name.
"""

from __future__ import annotations

import ipaddress
import queue
import re
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from urllib3.exceptions import LocationParseError
from urllib3.util import parse_url

from pipeline_core.errors import WrongParameter
from pipeline_core.plugins.errors import AddressRefused, PluginUnavailable
from pipeline_core.settings import Network

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

ALWAYS_REFUSED: dict[Network, str] = {
    ipaddress.ip_network(network): kind
    for network, kind in {
        "169.254.0.0/16": "link-local",
        "fe80::/10": "link-local",
        "fd00:ec2::/32": "a cloud metadata address (AWS)",
        "fd20:ce::254/128": "a cloud metadata address (Google Cloud)",
        "100.100.100.200/32": "a cloud metadata address (Alibaba Cloud)",
        "168.63.129.16/32": "a cloud metadata address (Azure)",
        "192.0.0.192/32": "a cloud metadata address (Oracle Cloud)",
        "fd00:42::42/128": "a cloud metadata address (Scaleway)",
        # Where the IPv4 address stands in these is for each network to choose (RFC 8215).
        "64:ff9b:1::/48": "a NAT64 address of local use, which may lead anywhere",
    }.items()
}
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_COMPATIBLE = ipaddress.IPv6Network("::/96")
_TRANSLATED = ipaddress.IPv6Network("::ffff:0:0:0/96")
MAX_NAME, MAX_LABEL = 253, 63
"""Characters of a name in DNS, and between two of its dots (RFC 1035, 2.3.4)."""
_BLANKS = re.compile(r"[\x00-\x20\x7f-\xa0\\]")


@dataclass(frozen=True, slots=True)
class Deadline:
    """A point in time by `time.monotonic()` (`at`), and how many `seconds` led to it, for messages."""

    at: float
    seconds: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        return cls(time.monotonic() + seconds, seconds)

    def remaining(self) -> float:
        """Seconds that are left, always more than 0. Raises TimeoutError when there are none."""
        left = self.at - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"{self} are over")
        return left

    @property
    def over(self) -> bool:
        """Whether no time is left."""
        return time.monotonic() >= self.at

    def __str__(self) -> str:
        return f"{self.seconds:.3g} s"


def refusal(address: Address, networks: Sequence[Network]) -> str | None:
    """Why `address` may not be called; None when it may. `networks` are the allowed ones; an empty sequence allows all."""
    forms = list(_forms(address))
    for network, kind in ALWAYS_REFUSED.items():
        if any(form in network for form in forms):
            return f"{address} is {kind}, which is never called"
    actual = address.ipv4_mapped or address if isinstance(address, ipaddress.IPv6Address) else address
    if networks and not any(actual in network for network in networks):
        return f"{address} is in none of the networks that plugins may live in"
    return None


def _forms(address: Address) -> Iterator[Address]:
    """The address and every IPv4 address that is embedded in it."""
    yield address
    if isinstance(address, ipaddress.IPv6Address):
        embedded = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
        if any(address in network for network in (_NAT64, _COMPATIBLE, _TRANSLATED)):
            embedded.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        yield from (form for form in embedded if form is not None)


def check_address(url: str, networks: Sequence[Network] = (), field: str = "callAddress") -> None:
    """Raises WrongParameter unless `url` is an absolute http or https URL that a plugin may be called at.

    Names are not resolved here: their addresses are checked at every new connection.
    """
    problem = _address_problem(url, networks)
    if problem:
        raise WrongParameter(f"{field} {problem}", errors={field: [problem]})


def origin(url: str) -> str:
    """Scheme, host and port of a URL that `check_address` accepts, in one spelling: `https://host:443`."""
    parts = parse_url(url)
    return f"{parts.scheme}://{parts.host}:{parts.port or (443 if parts.scheme == 'https' else 80)}"


def _address_problem(url: str, networks: Sequence[Network]) -> str | None:
    if _BLANKS.search(url):
        return "must not contain blanks, control characters or backslashes"
    try:
        parts = parse_url(url)
    except LocationParseError:
        return "must be an absolute URL such as http://host:8080/path, with a port from 1 to 65535"
    if parts.scheme not in ("http", "https") or not parts.host:
        return "must be an absolute http or https URL such as http://host:8080/path"
    if parts.auth is not None:
        return "must not contain a user name or password; use `authorization`"
    if parts.fragment is not None:
        return "must not contain a fragment (#…)"
    if parts.port == 0:
        return "must have a port from 1 to 65535, or none"
    if literal := _literal(parts.host):
        return refusal(literal, networks)
    labels = parts.host.removesuffix(".").split(".")
    if len(parts.host) > MAX_NAME or not all(0 < len(label) <= MAX_LABEL for label in labels):
        return (
            f"must name a host that DNS can have: at most {MAX_NAME} characters, and 1 to {MAX_LABEL} between two dots"
        )
    return None


def _literal(host: str) -> Address | None:
    """The literal address in `host`, in any form that the resolver accepts (`0xA9FEA9FE`); None for a name."""
    try:
        return _address(host.strip("[]"))
    except ValueError:
        pass
    try:
        return ipaddress.IPv4Address(socket.inet_aton(host))
    except OSError:
        return None


def _address(text: str) -> Address:
    return ipaddress.ip_address(text.partition("%")[0])


def connect(host: str, port: int, networks: Sequence[Network], deadline: Deadline) -> socket.socket:
    """A connected socket. Raises AddressRefused when any address of `host` is refused, and PluginUnavailable.

    Each address gets an equal share of the remaining time, so that one that drops packets does not use up the next one's.
    """
    candidates = _resolve(host.strip("[]"), port, deadline)
    for *_, address in candidates:
        problem = refusal(_address(str(address[0])), networks)
        if problem:
            raise AddressRefused(f"its address was refused: {problem}")
    failure: OSError | None = None
    for left, (family, kind, protocol, _, address) in zip(range(len(candidates), 0, -1), candidates, strict=True):
        try:
            return _connected(socket.socket(family, kind, protocol), address, deadline.remaining() / left)
        except OSError as error:
            failure = error
    if isinstance(failure, TimeoutError):
        raise PluginUnavailable(f"no connection within {deadline}") from failure
    raise PluginUnavailable(f"no connection: {failure.strerror if failure else 'its name has no address'}") from failure


def _connected(connection: socket.socket, address: _Socket, seconds: float) -> socket.socket:
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(seconds)
        connection.connect(address)
    except BaseException:
        connection.close()
        raise
    return connection


_Socket = tuple[str | int, ...] | tuple[int, bytes]
_Candidate = tuple[socket.AddressFamily, socket.SocketKind, int, str, _Socket]


def _resolve(host: str, port: int, deadline: Deadline) -> list[_Candidate]:
    """`getaddrinfo` has no time-out, so it runs in a daemon thread, which is abandoned when it takes too long."""
    found: queue.SimpleQueue[list[_Candidate] | OSError | UnicodeError] = queue.SimpleQueue()

    def look_up() -> None:
        try:
            found.put(list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)))
        except (OSError, UnicodeError) as error:
            found.put(error)

    if _literal(host):
        look_up()
    else:
        threading.Thread(target=look_up, name="resolve", daemon=True).start()
    try:
        outcome = found.get(timeout=deadline.remaining())
    except (queue.Empty, TimeoutError):
        raise PluginUnavailable(f"its name was not resolved within {deadline}") from None
    if isinstance(outcome, socket.gaierror):
        raise PluginUnavailable(f"its name could not be resolved: {outcome.strerror}") from outcome
    if isinstance(outcome, OSError | UnicodeError):
        raise PluginUnavailable("its name could not be resolved") from outcome
    return outcome
