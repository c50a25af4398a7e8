"""Mail handed over to a real SMTP server, with TLS and login; and servers that refuse, are silent, or never end."""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from pipeline_core.hooks import mail
from pipeline_core.hooks.mail import MailRefused
from pipeline_core.plugins.errors import AddressRefused, BadAnswer, CallFailed, PluginUnavailable
from pipeline_core.plugins.network import Deadline
from pipeline_core.settings import Network
from tests.mail_server import MailServer, mail_server

FROM, TO = "pipeline@example.org", "ops@example.org"
MAIL = b"Subject: x\r\nMessage-ID: <d01@example.org>\r\n\r\none\r\n.\r\ntwo\r\n"
PATIENT = 600.0


@pytest.fixture(params=["smtp", "smtps", "smtp+plain"])
def any_server(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MailServer]:
    with mail_server(tmp_path, request.param, login=request.param != "smtp+plain") as server:
        monkeypatch.setenv("SSL_CERT_FILE", str(server.certificate))
        yield server


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MailServer]:
    with mail_server(tmp_path) as server:
        monkeypatch.setenv("SSL_CERT_FILE", str(server.certificate))
        yield server


def send(url: str, seconds: float = PATIENT, networks: tuple[Network, ...] = ()) -> None:
    mail.send(mail.MailServer.of(url), FROM, TO, MAIL, Deadline.after(seconds), networks)


def failure(url: str, seconds: float = PATIENT, networks: tuple[Network, ...] = ()) -> CallFailed:
    with pytest.raises(CallFailed) as failed:
        send(url, seconds, networks)
    return failed.value


def test_a_mail_is_handed_over_as_it_is(any_server: MailServer) -> None:
    send(any_server.url)
    (found,) = any_server.mails
    assert found["Message-ID"] == "<d01@example.org>"
    assert found.get_content().splitlines() == ["one", ".", "two"]


@pytest.mark.parametrize("command", ["RCPT", "DATA"])
@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        ("550 5.1.1 no such user", MailRefused),
        ("552 too large", MailRefused),
        ("530 log in first", BadAnswer),
        ("450 4.2.0 greylisted", BadAnswer),
        ("452 no space", BadAnswer),
        ("421 shutting down", PluginUnavailable),
    ],
)
def test_5yz_is_for_good_and_4yz_is_not(server: MailServer, command: str, reply: str, kind: type[CallFailed]) -> None:
    server.replies = lambda asked: reply if asked == command else None
    found = failure(server.url)
    assert type(found) is kind
    assert reply in found.cause
    assert server.mails == []


def test_a_wrong_password_is_said_without_the_password(server: MailServer) -> None:
    found = failure(server.url.replace("p%40ss", "hunter2"))
    assert type(found) is BadAnswer, "the settings may be corrected"
    assert found.cause.startswith("the mail server refused the login: 535")
    assert "hunter2" not in found.cause


def test_nothing_is_sent_without_the_tls_that_the_url_asks_for(tmp_path: Path) -> None:
    with mail_server(tmp_path, "smtp+plain", login=False) as server:
        found = failure(f"smtp://ann:hunter2@127.0.0.1:{server.port}")
    assert type(found) is BadAnswer
    assert "STARTTLS" in found.cause


@pytest.mark.parametrize("scheme", ["smtp", "smtps"])
def test_a_certificate_that_is_not_trusted_is_refused(tmp_path: Path, scheme: str) -> None:
    with mail_server(tmp_path, scheme) as server:
        found = failure(server.url)
    assert type(found) is PluginUnavailable
    assert found.cause.startswith("TLS failed: ")
    assert server.mails == []


def test_a_server_in_no_allowed_network_is_not_called(server: MailServer) -> None:
    assert type(failure(server.url, networks=(ipaddress.ip_network("10.0.0.0/8"),))) is AddressRefused
    assert type(failure("smtp://169.254.169.254:25")) is AddressRefused
    send(server.url, networks=(ipaddress.ip_network("127.0.0.0/8"),))


def test_a_server_that_is_away_is_said_so(server: MailServer) -> None:
    server.stop()
    assert "no connection" in failure(server.url).cause


@contextmanager
def talking(talk: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that lets `talk` have each connection; its URL."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                try:
                    talk(connection)
                except OSError:
                    continue

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    with closing(listener):
        yield f"smtp+plain://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


def test_a_silent_server_is_left_when_the_time_is_over() -> None:
    with talking(lambda connection: connection.recv(1) and None) as url:
        found = failure(url, seconds=0.3)
    assert (type(found), found.cause) == (PluginUnavailable, "no answer within 0.3 s")


def test_a_server_whose_replies_do_not_end_is_left() -> None:
    def endless(connection: socket.socket) -> None:
        while True:
            connection.sendall(b"220-and another line\r\n" * 100)

    with talking(endless) as url:
        found = failure(url)
    assert (type(found), found.cause) == (PluginUnavailable, "the connection was closed before the mail was taken")


def taking(last: bytes) -> Callable[[socket.socket], None]:
    """Take a mail, answer its end with `last`, and close the connection."""

    def talk(connection: socket.socket) -> None:
        connection.sendall(b"220 x\r\n")
        for line in connection.makefile("rb"):
            if line.upper().startswith((b"EHLO", b"MAIL", b"RCPT", b"DATA")):
                connection.sendall(b"354 go\r\n" if line.upper().startswith(b"DATA") else b"250 x\r\n")
            elif line == b".\r\n":
                connection.sendall(last)
                return

    return talk


def test_a_connection_that_is_lost_after_the_mail_is_no_success() -> None:
    with talking(taking(b"")) as url:
        found = failure(url)
    assert (type(found), found.cause) == (PluginUnavailable, "the connection was closed before the mail was taken")


def test_a_mail_that_was_taken_is_sent_though_the_server_is_gone_then() -> None:
    with talking(taking(b"250 taken\r\n")) as url:
        send(url)
