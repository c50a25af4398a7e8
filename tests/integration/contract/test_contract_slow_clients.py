"""Clients that send or read next to nothing, without a token: others are answered, and they are closed after a time."""

from __future__ import annotations

import http.client
import re
import signal
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.installation import Installation, installed
from tests.servers import fresh_database
from tests.waiting import HANG_SECONDS, wait_for

MANY = 400
"""Far more than all processes of the API have threads."""

HEAD = b"Host: 127.0.0.1\r\nContent-Type: application/json\r\n"
SLOW = {
    "nothing": b"",
    "a request line": b"GET /healthz",
    "headers": b"GET /healthz HTTP/1.1\r\n" + HEAD + b"X-Slow: ",
    "a body": b"POST /v1/job HTTP/1.1\r\n" + HEAD + b"Content-Length: 100000\r\n\r\n{",
    "chunks": b"POST /v1/job HTTP/1.1\r\n" + HEAD + b"Transfer-Encoding: chunked\r\n\r\nffff\r\n{",
}
UNREAD = {
    "large answers": b"GET /openapi.json HTTP/1.1\r\n" + HEAD + b"\r\n",
    "refused bodies": b"POST /v1/job HTTP/1.1\r\n" + HEAD + b"Content-Length: 9999999\r\n\r\n",
    "last answers": b"GET /healthz HTTP/1.0\r\n\r\n",
}

Start = Callable[..., Installation]


@pytest.fixture
def start(tmp_path: Any, postgres_url: str, migrated_database: str, redis_url: str) -> Iterator[Start]:
    """Starts an API with the settings that it is given."""
    with ExitStack() as stack:

        def run(**settings: Any) -> Installation:
            database_url = stack.enter_context(fresh_database(postgres_url, template=migrated_database))
            variables = {f"PIPELINE_{name.upper()}": str(value) for name, value in settings.items()}
            installation = stack.enter_context(installed(tmp_path, database_url, redis_url, **variables))
            installation.start("api")
            wait_for(lambda: installation.ask("GET", "/readyz").status_code == 200, "the API")
            return installation

        yield run


def connect(api: Installation) -> socket.socket:
    address = urlsplit(api.url)
    link = socket.socket()
    # The least that there is, so that a client that does not read is noticed early.
    link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    link.settimeout(HANG_SECONDS)
    link.connect((address.hostname, address.port))
    return link


@contextmanager
def slow_clients(api: Installation, sent: bytes, count: int = MANY) -> Iterator[list[socket.socket]]:
    """So many connections on which this much was sent."""
    with ExitStack() as stack:
        links = [stack.enter_context(closing(connect(api))) for _ in range(count)]
        for link in links:
            link.sendall(sent)
        yield links


def drip(links: list[socket.socket]) -> None:
    """One byte more on each connection that is still open."""
    for link in links:
        try:
            link.send(b"a")
        except OSError:
            continue


def answers_others(api: Installation) -> bool:
    address = urlsplit(api.url)
    with closing(http.client.HTTPConnection(str(address.hostname), address.port, timeout=HANG_SECONDS)) as link:
        link.request("GET", "/healthz")
        return link.getresponse().status == 200


def is_closed(link: socket.socket) -> bool:
    """Whether the server has closed the connection; what it has answered is read."""
    try:
        while link.recv(1 << 20):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        pass
    return True


def test_others_are_answered_while_hundreds_of_slow_connections_are_kept(start: Start) -> None:
    api = start(api_connections=MANY + 50, api_connections_per_address=MANY + 50, request_head_seconds=600)
    for what, sent in {**SLOW, **UNREAD}.items():
        with slow_clients(api, sent) as links:
            for _ in range(5):
                if what in SLOW:
                    drip(links)
                assert answers_others(api), what
            assert api.ask("GET", "/v1/job/count").status_code == 200, what


def test_others_are_answered_while_more_connect_than_there_may_be(start: Start) -> None:
    api = start(api_connections=100, api_connections_per_address=20)
    with slow_clients(api, SLOW["headers"]) as links:
        for _ in range(10):
            drip(links)
            assert answers_others(api)
        assert is_closed(links[0]), "the one that has waited longest makes room"


def test_a_request_that_is_not_there_in_time_is_not_waited_for(start: Start) -> None:
    api = start(request_head_seconds=0.5, request_body_seconds=0.5)
    for what, sent in SLOW.items():
        with slow_clients(api, sent or b"G", count=1) as (link,):
            link.settimeout(0.05)

            def closed_although_it_drips(link: socket.socket = link) -> bool:
                drip([link])
                return is_closed(link)

            wait_for(closed_although_it_drips, f"the connection with {what} to be closed")


def test_slow_clients_do_not_hold_up_the_stop(start: Start) -> None:
    api = start(request_head_seconds=600, request_body_seconds=600)
    with slow_clients(api, SLOW["headers"], count=20), slow_clients(api, SLOW["a body"], count=20):
        assert answers_others(api)
        process = api.processes.pop("api")
        process.send_signal(signal.SIGTERM)
        assert process.wait(HANG_SECONDS) == 0


def test_who_waits_for_events_is_answered_at_the_stop(start: Start) -> None:
    api = start()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(api.ask, "GET", "/v1/events?after=latest&wait=25")
        # As many requests as let both processes have received it.
        assert all(answers_others(api) for _ in range(20))
        process = api.processes.pop("api")
        # The stop waits for ten seconds, and then drops whoever was not answered.
        assert not waiting.done()
        process.send_signal(signal.SIGTERM)
        assert waiting.result(HANG_SECONDS).json()["payload"] == []
        assert process.wait(HANG_SECONDS) == 0


def test_who_asks_before_sending_a_body_is_asked_for_it_once(start: Start) -> None:
    api = start()
    body = b'{"userID": "ada"}'
    head = b"POST /v1/job HTTP/1.1\r\n" + HEAD + b"token: admin\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n"
    with slow_clients(api, head % len(body), count=1) as (link,), link.makefile("rb") as answer:
        assert answer.readline() == b"HTTP/1.1 100 Continue\r\n"
        assert answer.readline() == b"\r\n"
        link.sendall(body)
        assert answer.readline() == b"HTTP/1.1 400 BAD REQUEST\r\n"


def test_requests_that_come_together_are_answered_in_order(start: Start) -> None:
    api = start()
    paths = [b"/healthz", b"/v1/nothing", b"/v1/version"]
    sent = b"".join(b"GET %s HTTP/1.1\r\n%s\r\n" % (path, HEAD) for path in paths)
    last = b"GET /v1/list HTTP/1.1\r\nConnection: close\r\n" + HEAD + b"\r\n"
    with slow_clients(api, sent + last[:-3], count=1) as (link,), link.makefile("rb") as answers:
        link.sendall(last[-3:])
        statuses = re.findall(rb"HTTP/1\.1 (\d+) ", answers.read())
    assert statuses == [b"200", b"404", b"200", b"404"]
