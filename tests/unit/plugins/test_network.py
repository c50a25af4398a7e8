from __future__ import annotations

import ipaddress

import pytest

from pipeline_core.errors import WrongParameter
from pipeline_core.plugins.network import check_address, refusal

CLUSTER = (ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("fd12::/16"))


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "169.254.0.1",
        "::ffff:169.254.169.254",
        "::169.254.169.254",
        "64:ff9b::169.254.169.254",
        "64:ff9b:1::169.254.169.254",
        "64:ff9b:1:a9fe:a9:fe00::",
        "::ffff:0:169.254.169.254",
        "2002:a9fe:a9fe::1",
        "fe80::1",
        "febf::1",
        "fd00:ec2::254",
        "fd20:ce::254",
        "100.100.100.200",
        "::ffff:100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
    ],
)
@pytest.mark.parametrize("networks", [(), (ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0"))])
def test_link_local_and_metadata_addresses_are_refused_whatever_is_allowed(address: str, networks: tuple) -> None:
    assert "never called" in str(refusal(ipaddress.ip_address(address), networks))


@pytest.mark.parametrize(
    "address",
    [
        "10.1.2.3",
        "127.0.0.1",
        "::1",
        "8.8.8.8",
        "fd12::1",
        "192.168.0.1",
        "fec0::1",
        "64:ff9b:2::1",
        "::ffff:0:8.8.8.8",
    ],
)
def test_all_other_addresses_are_allowed_without_a_list(address: str) -> None:
    assert refusal(ipaddress.ip_address(address), ()) is None


@pytest.mark.parametrize(
    ("address", "allowed"),
    [
        ("10.1.2.3", True),
        ("::ffff:10.1.2.3", True),
        ("fd12::1", True),
        ("11.1.2.3", False),
        ("127.0.0.1", False),
        ("::1", False),
        ("0.0.0.0", False),
        ("::ffff:11.1.2.3", False),
        ("64:ff9b::10.1.2.3", False),
    ],
)
def test_a_list_of_networks_allows_these_only(address: str, allowed: bool) -> None:
    assert (refusal(ipaddress.ip_address(address), CLUSTER) is None) is allowed


@pytest.mark.parametrize(
    "url",
    [
        "http://plugin",
        "https://plugin.svc.cluster.local:8443/call?x=1",
        "HTTP://plugin/",
        "http://127.0.0.1:80/",
        "http://[::1]:8080/x",
        "http://bücher.example/",
        "http://my_service:5000/a%20b",
    ],
)
def test_an_absolute_http_url_is_an_address(url: str) -> None:
    check_address(url)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("", "absolute http or https URL"),
        ("plugin:8080/x", "absolute http or https URL"),
        ("//plugin/x", "absolute http or https URL"),
        ("/x", "absolute http or https URL"),
        ("ftp://plugin/x", "absolute http or https URL"),
        ("file:///etc/passwd", "absolute http or https URL"),
        ("http://", "absolute http or https URL"),
        ("http:plugin", "absolute http or https URL"),
        ("http://user:password@plugin/", "user name or password"),
        ("http://user@plugin/", "user name or password"),
        ("http://plugin/#there", "fragment"),
        ("http://plugin:0/", "port from 1 to 65535"),
        ("http://plugin:65536/", "port from 1 to 65535"),
        ("http://plugin:x/", "port from 1 to 65535"),
        ("http://[::1/", "absolute URL"),
        ("http://plug in/", "blanks"),
        ("http://plugin/\r\nX-Injected: 1", "control characters"),
        (" http://plugin/", "blanks"),
        ("http://plugin\\@169.254.169.254/", "backslashes"),
        ("http://169.254.169.254/latest", "link-local"),
        ("http://2852039166/", "link-local"),
        ("http://0xA9FEA9FE/", "link-local"),
        ("http://0251.0376.0251.0376/", "link-local"),
        ("http://169.254.43518/", "link-local"),
        ("http://[::ffff:169.254.169.254]/", "link-local"),
        ("http://[fe80::1%25eth0]/", "link-local"),
        ("http://[fd00:ec2::254]/", "metadata"),
        (f"http://{'a' * 64}.example/", "1 to 63"),
        (f"http://{'a.' * 127}example/", "at most 253"),
        ("http://a..example/", "1 to 63"),
    ],
)
def test_any_other_address_is_refused_with_its_reason(url: str, words: str) -> None:
    with pytest.raises(WrongParameter, match=words) as caught:
        check_address(url)
    assert list(caught.value.errors) == ["callAddress"]


def test_a_literal_address_is_held_against_the_networks() -> None:
    check_address("http://10.0.0.1/", CLUSTER)
    with pytest.raises(WrongParameter, match="networks"):
        check_address("http://127.0.0.1/", CLUSTER, field="plugins[0].callAddress")
