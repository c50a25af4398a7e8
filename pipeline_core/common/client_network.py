"""The network of a client, by which its requests and connections are counted."""

from __future__ import annotations

import ipaddress


def client_network(address: str) -> str:
    """What a client is counted by: an IPv4 address, or the /64 of an IPv6 one, of which one host has all addresses."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return address
    return str(parsed.ipv4_mapped or ipaddress.IPv6Network((parsed, 64), strict=False))
