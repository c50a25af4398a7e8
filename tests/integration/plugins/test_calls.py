from __future__ import annotations

import ipaddress
import os
import socket
import threading
import time
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from redis import Redis

from pipeline_core.plugins import answers
from pipeline_core.plugins.client import PluginClient, Reply
from pipeline_core.plugins.errors import AddressRefused, BadAnswer, CircuitOpen, ConcurrencyLimit, PluginUnavailable
from pipeline_core.plugins.guard import Guard
from pipeline_core.plugins.packet import Endpoint
from pipeline_core.plugins.transport import Transport
from pipeline_core.plugins.types import PluginType
from pipeline_core.settings import Network
from tests.integration.plugins.misbehaving import MEBIBYTE, Plugin
from tests.waiting import HANG_SECONDS

UNGUARDED = Guard(None, prefix="", concurrency=1, failures=1, open_seconds=1)


class Caller:
    def __init__(self, networks: tuple[Network, ...] = (), guard: Guard = UNGUARDED) -> None:
        self.client = PluginClient(Transport(networks), guard)

    def __call__(self, url: str, *, timeout: float = 20, attempts: int = 1, body: bytes = b"{}") -> Reply:
        endpoint = Endpoint("k", PluginType.ACCESS_GATE, url, "Bearer hush", "", timeout, attempts)
        deadline = time.monotonic() + 60
        return self.client.call(endpoint, body, job_id="j", idempotency_key="j:s:k:1", deadline=deadline)


@pytest.fixture
def call() -> Caller:
    return Caller()


def test_a_plugin_is_called_and_answers(call: Caller, plugin: Plugin) -> None:
    reply = call(plugin.url("pass"), body=b'{"job": 1}')
    assert answers.gate(reply.body) == answers.GateAnswer(answers.Decision.PASS)
    assert reply.attempts == 1
    [request] = plugin.requests
    assert request.body == b'{"job": 1}'
    assert request.headers["idempotency-key"] == "j:s:k:1"
    assert request.headers["host"] == f"127.0.0.1:{plugin.port}"


def test_a_connection_is_kept_alive_and_cookies_are_not(call: Caller, plugin: Plugin) -> None:
    for _ in range(3):
        call(plugin.url("cookie"))
    assert plugin.connections == 1
    assert not any("cookie" in request.headers for request in plugin.requests)


def test_a_large_packet_arrives_whole(call: Caller, plugin: Plugin) -> None:
    packet = os.urandom(3 * MEBIBYTE)
    call(plugin.url("pass"), body=packet)
    assert plugin.requests[0].body == packet


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("chunked", b"hello world"),
        ("compressed", b"hello world"),
        ("until-closed", b"hello world"),
        ("whole", b" " * (8 * MEBIBYTE)),
    ],
)
def test_an_answer_may_come_in_any_form(call: Caller, plugin: Plugin, path: str, body: bytes) -> None:
    assert call(plugin.url(path)).body == body


def test_a_plugin_that_is_back_at_the_third_attempt_has_answered(call: Caller, plugin: Plugin) -> None:
    assert call(plugin.url("flaky"), attempts=3).attempts == 3
    assert len({request.headers["idempotency-key"] for request in plugin.requests}) == 1


@pytest.mark.parametrize("path", ["interim-100", "interim-102", "interim-103", "interim-199", "interim-many"])
def test_interim_answers_are_skipped(call: Caller, plugin: Plugin, path: str) -> None:
    for _ in range(2):
        assert call(plugin.url(path)).body == b'{"decision": "pass"}'
    assert plugin.connections == 1


@pytest.mark.parametrize("path", ["hang", "drip-headers", "drip-body", "drip-chunks", "drip-continue", "drip-hints"])
def test_a_plugin_that_hangs_or_drips_is_cut_off_at_its_timeout(call: Caller, plugin: Plugin, path: str) -> None:
    started = time.monotonic()
    with pytest.raises(PluginUnavailable, match=r"no answer within 0\.4 s"):
        call(plugin.url(path), timeout=0.4)
    assert time.monotonic() - started < HANG_SECONDS


def test_an_error_that_drips_is_an_error(call: Caller, plugin: Plugin) -> None:
    with pytest.raises(PluginUnavailable, match="status 500"):
        call(plugin.url("drip-error"), timeout=0.4)


def test_a_plugin_that_does_not_read_is_cut_off_too(call: Caller) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, pytest.raises(PluginUnavailable, match="no answer within"):
        call(f"http://127.0.0.1:{listener.getsockname()[1]}/", timeout=0.4, body=b"x" * (32 * MEBIBYTE))


def test_a_plugin_that_reads_slowly_is_cut_off_too(call: Caller) -> None:
    released = threading.Event()

    def read_slowly() -> None:
        connection, _ = listener.accept()
        with connection:
            while not released.wait(0.05):
                connection.recv(64 * 1024)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        reading = threading.Thread(target=read_slowly, daemon=True)
        reading.start()
        started = time.monotonic()
        try:
            with pytest.raises(PluginUnavailable, match=r"no answer within 0\.4 s"):
                call(f"http://127.0.0.1:{listener.getsockname()[1]}/", timeout=0.4, body=b"x" * (32 * MEBIBYTE))
            assert time.monotonic() - started < HANG_SECONDS
        finally:
            released.set()
            reading.join(HANG_SECONDS)


@pytest.mark.parametrize("path", ["large", "bomb", "bomb-in-bomb"])
def test_a_huge_answer_is_not_held_in_memory(call: Caller, plugin: Plugin, path: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(BadAnswer, match="larger than 8 MiB"):
            call(plugin.url(path))
        assert tracemalloc.get_traced_memory()[1] < 40 * MEBIBYTE
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "path",
    [
        "closed-at-once",
        "closed-in-headers",
        "closed-between-headers",
        "closed-after-hints",
        "closed-in-body",
        "closed-in-chunk",
    ],
)
def test_a_call_is_retried_when_the_plugin_closes_the_connection(call: Caller, plugin: Plugin, path: str) -> None:
    with pytest.raises(PluginUnavailable, match="closed before the answer was complete") as caught:
        call(plugin.url(path), attempts=2)
    assert caught.value.attempts == 2
    assert len(plugin.requests) == 2


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("501", r"status 501: Traceback \[31mx+…"),
        ("204", "status 204"),
        ("interim-101", "status 101"),
        ("redirect", "status 302: redirects are not followed"),
        ("large", "larger than 8 MiB"),
        ("bomb", "larger than 8 MiB"),
        ("bomb-in-bomb", "larger than 8 MiB"),
        ("not-gzip", "Content-Encoding"),
        ("not-http", "not HTTP"),
        ("long-line", "not HTTP"),
        ("many-headers", "not HTTP"),
        ("two-lengths", "not HTTP"),
    ],
)
def test_a_bad_answer_is_described_briefly_and_not_retried(call: Caller, plugin: Plugin, path: str, words: str) -> None:
    with pytest.raises(BadAnswer, match=words) as caught:
        call(plugin.url(path), attempts=3)
    assert len(caught.value.cause) < 250
    assert len(plugin.requests) == 1
    assert call(plugin.url("pass")).body


@pytest.mark.parametrize(("path", "words"), [("html", "not JSON"), ("twice", '"decision" twice'), ("deep", "deep")])
def test_an_answer_that_is_no_json_is_bad(call: Caller, plugin: Plugin, path: str, words: str) -> None:
    reply = call(plugin.url(path))
    with pytest.raises(BadAnswer, match=words):
        answers.gate(reply.body)


def test_retry_after_beyond_the_budget_is_not_waited_for(call: Caller, plugin: Plugin) -> None:
    with pytest.raises(PluginUnavailable, match="status 429") as caught:
        call(plugin.url("429"), attempts=3)
    assert (caught.value.retry_after, caught.value.attempts) == (3600, 1)


def test_a_plugin_that_does_not_listen_is_unavailable(call: Caller, closed_port: int) -> None:
    with pytest.raises(PluginUnavailable, match="no connection: Connection refused"):
        call(f"http://127.0.0.1:{closed_port}/")


def test_proxies_from_the_environment_are_ignored(
    call: Caller, plugin: Plugin, closed_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{closed_port}")
    assert call(plugin.url("pass")).body


@pytest.mark.parametrize("host", ["169.254.169.254", "2852039166", "[::ffff:169.254.169.254]", "[fd00:ec2::254]"])
def test_a_metadata_address_is_never_called(call: Caller, host: str) -> None:
    with pytest.raises(AddressRefused, match=r"its address was refused: .* never called"):
        call(f"http://{host}/latest/meta-data/")


def resolving(*addresses: list[str]) -> tuple[Callable[..., Any], list[str]]:
    """A resolver that returns these answers in turn, and the names that it was called with."""
    names: list[str] = []

    def getaddrinfo(host: str, port: int, **_: object) -> list[Any]:
        names.append(host)
        found = addresses[min(len(names), len(addresses)) - 1]
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port)) for address in found]

    return getaddrinfo, names


def test_a_name_is_resolved_once_and_the_connection_goes_there(
    call: Caller, plugin: Plugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolver, names = resolving(["127.0.0.1"], ["169.254.169.254"])
    monkeypatch.setattr(socket, "getaddrinfo", resolver)
    assert call(plugin.url("pass", "rebinding.test")).body
    assert names == ["rebinding.test"]
    assert plugin.requests[0].headers["host"] == f"rebinding.test:{plugin.port}"


def test_one_refused_address_refuses_the_name(call: Caller, plugin: Plugin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", resolving(["127.0.0.1", "169.254.169.254"])[0])
    with pytest.raises(AddressRefused, match=r"169\.254\.169\.254 is link-local"):
        call(plugin.url("pass", "rebinding.test"))
    assert plugin.connections == 0


def test_the_next_address_of_a_name_is_tried(call: Caller, plugin: Plugin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", resolving(["127.0.0.2", "127.0.0.1"])[0])
    assert call(plugin.url("pass", "two.test")).body


def test_a_name_that_is_not_resolved_in_time_is_given_up(call: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [released.wait(HANG_SECONDS)][1:])
    with pytest.raises(PluginUnavailable, match=r"not resolved within 0\.3 s"):
        call("http://slow.test/", timeout=0.3)
    released.set()


def test_a_plugin_whose_name_does_not_exist_is_unavailable(call: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(PluginUnavailable, match="could not be resolved: Name or service not known"):
        call("http://nowhere.test/")


def test_a_plugin_whose_name_is_too_long_for_dns_is_unavailable(call: Caller) -> None:
    with pytest.raises(PluginUnavailable, match="could not be resolved"):
        call(f"http://{'x' * 70}.test/")


def test_only_the_networks_that_are_set_are_called(plugin: Plugin) -> None:
    with pytest.raises(AddressRefused, match="none of the networks"):
        Caller((ipaddress.ip_network("10.0.0.0/8"),))(plugin.url("pass"))
    assert Caller((ipaddress.ip_network("127.0.0.0/8"),))(plugin.url("pass")).body
    assert plugin.connections == 1


def test_threads_share_a_client(call: Caller, plugin: Plugin) -> None:
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda _: call(plugin.url("pass")), range(40)))
    assert len(replies) == 40
    assert plugin.connections <= 8


def test_a_forked_process_has_connections_of_its_own(call: Caller, plugin: Plugin) -> None:
    call(plugin.url("pass"))
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if call(plugin.url("pass")).body else 1
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    call(plugin.url("pass"))
    assert len(plugin.requests) == 3
    assert plugin.connections == 2


def test_a_circuit_that_opens_between_attempts_ends_the_call(plugin: Plugin, valkey: Redis) -> None:
    call = Caller(guard=Guard(valkey, prefix="t:", concurrency=1, failures=2, open_seconds=60))
    with pytest.raises(CircuitOpen, match="after: the connection was closed") as caught:
        call(plugin.url("closed-at-once"), attempts=5)
    assert caught.value.attempts == 2
    assert len(plugin.requests) == 2


def test_the_concurrency_limit_is_raised_at_once_and_frees_itself(plugin: Plugin, valkey: Redis) -> None:
    guard = Guard(valkey, prefix="t:", concurrency=1, failures=1, open_seconds=60)
    call = Caller(guard=guard)
    with guard.entered("k", 30), pytest.raises(ConcurrencyLimit) as caught:
        call(plugin.url("pass"), attempts=5)
    assert caught.value.attempts == 0
    assert call(plugin.url("pass")).attempts == 1
    assert len(plugin.requests) == 1


def test_the_next_address_is_tried_when_one_drops_packets(
    call: Caller, plugin: Plugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.2", plugin.port))
        full.listen(0)
        filled = [_connecting("127.0.0.2", plugin.port) for _ in range(4)]
        monkeypatch.setattr(socket, "getaddrinfo", resolving(["127.0.0.2", "127.0.0.1"])[0])
        assert call(plugin.url("pass", "two.test"), timeout=1).body
        for connection in filled:
            connection.close()


def _connecting(host: str, port: int) -> socket.socket:
    connection = socket.socket()
    connection.setblocking(False)
    connection.connect_ex((host, port))
    return connection
