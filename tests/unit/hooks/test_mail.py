"""The mail of an alert, and the server that a URL names."""

from __future__ import annotations

from datetime import UTC, datetime
from email import message_from_bytes, policy
from email.message import EmailMessage

import pytest

from pipeline_core.hooks.mail import MailServer, message
from tests.unit.hooks.test_alert_texts import alert

MOMENT = datetime(2026, 3, 1, 12, tzinfo=UTC)


def parsed(raw: bytes) -> EmailMessage:
    found = message_from_bytes(raw, policy=policy.default)
    assert isinstance(found, EmailMessage)
    return found


def mail(**fields: object) -> bytes:
    return message(alert(**fields), "d01", "pipeline@example.org", "ops@example.org", MOMENT)


def test_a_mail_has_what_the_alert_says_and_an_id_of_its_delivery() -> None:
    found = parsed(mail())
    assert {name: str(value) for name, value in found.items()} == {
        "From": "pipeline@example.org",
        "To": "ops@example.org",
        "Subject": "nightly: failed",
        "Date": "Sun, 01 Mar 2026 12:00:00 +0000",
        "Message-ID": "<d01@example.org>",
        "Auto-Submitted": "auto-generated",
        "Content-Type": 'text/plain; charset="utf-8"',
        "Content-Transfer-Encoding": "7bit",
        "MIME-Version": "1.0",
    }
    first, *_, last = found.get_content().splitlines()
    assert (first, last) == ("task train: exit code 3", "https://pipeline.example/v1/runs/r01")


def test_names_with_line_breaks_add_no_header_and_no_second_body() -> None:
    found = parsed(mail(flow="x\r\nBcc: eve@evil.example\r\n\r\nbody", reason="a\n.\nMAIL FROM:<x>"))
    assert set(found.keys()) == set(parsed(mail()).keys())
    assert str(found["Subject"]) == "x Bcc: eve@evil.example body: failed"
    assert found.get_content().splitlines()[0] == "a . MAIL FROM:<x>"


@pytest.mark.parametrize("text", ["夜间训练", "naïve 🚀", "a\ud800b", "é" * 5000])
def test_any_text_is_sent_as_ascii_in_lines_that_servers_take(text: str) -> None:
    raw = mail(flow=text, reason=text * 9)
    assert raw.isascii()
    assert max(map(len, raw.split(b"\r\n"))) <= 998
    assert len(raw) < 20_000
    found = parsed(raw)
    shown = text.replace("\ud800", " ")[:100]
    assert str(found["Subject"]).startswith(shown)
    assert found.get_content().startswith(shown)


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("smtp://mail.example", MailServer("smtp", "mail.example", 587)),
        ("smtps://ann:p%40ss@mail.example", MailServer("smtps", "mail.example", 465, "ann", "p@ss")),
        ("smtp+plain://[::1]:2525", MailServer("smtp+plain", "::1", 2525)),
        ("smtp+plain://relay", MailServer("smtp+plain", "relay", 25)),
    ],
)
def test_a_url_names_a_server(url: str, server: MailServer) -> None:
    assert MailServer.of(url) == server
    assert "p@ss" not in repr(server)
