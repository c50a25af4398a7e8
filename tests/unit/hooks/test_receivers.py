"""Who gets alerts, and in which format."""

from __future__ import annotations

import pytest

from pipeline_core.hooks.receivers import ALERTS, AlertFormat, Receiver, is_receiver, receivers
from pipeline_core.settings import Settings

SECRET = "whsec_" + "QUFB" * 8


def only(url: str) -> Receiver:
    found = receivers(
        Settings(
            alert_url=(("", url),),
            alert_authorization="Bearer x",
            alert_signing_secret=SECRET,
            alert_sender="pipeline@example.org",
            smtp_url="smtp://mail.example",
        )
    )
    assert list(found) == [ALERTS]
    assert found[ALERTS].endpoint.max_attempts == 1
    return found[ALERTS]


def test_without_a_url_nobody_gets_alerts() -> None:
    assert receivers(Settings()) == {}


def test_a_receiver_of_json_gets_the_authorization_and_signatures() -> None:
    found = only("https://alerts.example/?a=b")
    assert (found.format, found.endpoint.address) == (AlertFormat.JSON, "https://alerts.example/?a=b")
    assert (found.endpoint.authorization, found.endpoint.signing_secret) == ("Bearer x", SECRET)


@pytest.mark.parametrize("chat", [AlertFormat.SLACK, AlertFormat.DINGTALK, AlertFormat.FEISHU])
def test_a_chat_gets_neither_and_its_secret_is_not_in_the_address(chat: AlertFormat) -> None:
    found = only(f"{chat}+https://:SEC%2Fret@chat.example:8443/robot/send?access_token=t")
    assert (found.format, found.secret) == (chat, "SEC/ret")
    assert found.endpoint.address == "https://chat.example:8443/robot/send?access_token=t"
    assert (found.endpoint.authorization, found.endpoint.signing_secret) == ("", "")
    assert "SEC" not in repr(found)


def test_a_receiver_of_mail_has_an_address_of_mail() -> None:
    found = only("mailto:ops%2Balerts@example.org")
    assert (found.format, found.endpoint.address) == (AlertFormat.MAIL, "ops+alerts@example.org")


def test_several_receivers_have_keys_of_their_names() -> None:
    urls = (("ops", "https://a.example/"), ("chat", "slack+https://b.example/"))
    found = receivers(Settings(alert_url=urls))
    assert {key: receiver.format for key, receiver in found.items()} == {
        "alerts:ops": AlertFormat.JSON,
        "alerts:chat": AlertFormat.SLACK,
    }


@pytest.mark.parametrize(
    ("key", "is_one"),
    [("alerts", True), ("alerts:ops", True), ("alerts:x.y", False), ("LifeHook.alerts.x", False), ("alertsx", False)],
)
def test_keys_of_receivers_differ_from_those_of_plugins(key: str, is_one: bool) -> None:
    assert is_receiver(key) is is_one
