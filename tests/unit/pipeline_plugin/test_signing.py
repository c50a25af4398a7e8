"""Signatures of the service are recognized, all others are not."""

from __future__ import annotations

import base64
import time

import pytest

from pipeline_core.plugins.packet import Endpoint, call_headers
from pipeline_core.plugins.types import PluginType
from pipeline_plugin.signing import TOLERANCE, is_signed, secret_key

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
BODY = b'{"header":{}}'


def headers() -> dict[str, str]:
    endpoint = Endpoint("AccessGate.f.a", PluginType.ACCESS_GATE, "http://plugin/", signing_secret=SECRET)
    sent = call_headers(endpoint, BODY, job_id="j1", idempotency_key="j1:gates:AccessGate.f.a:1", request_id="r1")
    return {name.lower(): value for name, value in sent.items()}


@pytest.mark.parametrize("secret", [SECRET, SECRET.rstrip("=")])
def test_what_the_service_signed_is_recognized(secret: str) -> None:
    assert is_signed(secret_key(secret), headers(), BODY)


def test_one_of_several_signatures_suffices() -> None:
    sent = headers()
    assert is_signed(secret_key(SECRET), {**sent, "webhook-signature": f"v1,AAAA {sent['webhook-signature']}"}, BODY)


@pytest.mark.parametrize(
    "change",
    [
        {"webhook-id": "another"},
        {"webhook-timestamp": "1000000000"},
        {"webhook-timestamp": ""},
        {"webhook-timestamp": "١"},
        {"webhook-timestamp": "9" * 400},
        {"webhook-signature": "v1,AAAA"},
        {"webhook-signature": "v1,ä\udcff"},
        {"webhook-signature": ""},
    ],
)
def test_what_was_altered_is_not(change: dict[str, str]) -> None:
    assert not is_signed(secret_key(SECRET), {**headers(), **change}, BODY)


def test_another_body_or_no_signature_is_not() -> None:
    assert not is_signed(secret_key(SECRET), headers(), b"[]")
    assert not is_signed(secret_key(SECRET), {}, BODY)


@pytest.mark.parametrize(("age", "accepted"), [(TOLERANCE - 5, True), (TOLERANCE + 5, False), (-TOLERANCE - 5, False)])
def test_it_is_recognized_for_five_minutes(age: int, accepted: bool) -> None:
    assert is_signed(secret_key(SECRET), headers(), BODY, time.time() + age) is accepted


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_AAAA", "whsec_!" + "A" * 40, SECRET[6:]])
def test_what_is_no_secret_is_refused_without_being_named(secret: str) -> None:
    with pytest.raises(ValueError, match="signing secret") as failure:
        secret_key(secret)
    assert len(secret) < 10 or secret not in str(failure.value)
