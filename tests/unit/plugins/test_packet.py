from __future__ import annotations

import base64
import json

import pytest
from standardwebhooks import Webhook

from pipeline_core.errors import WrongParameter
from pipeline_core.plugins.errors import clean
from pipeline_core.plugins.packet import Endpoint, Packet, PluginCall, call_headers, check_secret
from pipeline_core.plugins.types import PluginType
from pipeline_core.validation.texts import header_value

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()


def endpoint(authorization: str = "", signing_secret: str = "") -> Endpoint:
    return Endpoint("gates/quota", PluginType.ACCESS_GATE, "http://plugin/", authorization, signing_secret)


def headers(plugin: Endpoint, request_id: str = "") -> dict[str, str]:
    return call_headers(plugin, b"{}", job_id="job-1", idempotency_key="job-1:gate:k:1", request_id=request_id)


def test_headers_name_the_job_and_the_plugin_call() -> None:
    found = headers(endpoint(), request_id="r1")
    assert found["Content-Type"] == "application/json"
    assert found["X-Job-ID"] == "job-1"
    assert found["X-Request-ID"] == "r1"
    assert found["Idempotency-Key"] == "job-1:gate:k:1"
    assert not {name for name in found if name == "Authorization" or name.startswith("webhook")}


def test_a_signature_is_one_that_a_plugin_can_verify() -> None:
    found = headers(endpoint("Bearer x", SECRET))
    assert found["Authorization"] == "Bearer x"
    assert found["webhook-id"] == "job-1:gate:k:1"
    assert Webhook(SECRET).verify(b"{}", found) == {}


def test_a_request_id_cannot_bring_in_another_header() -> None:
    assert headers(endpoint(), request_id="a\r\nX: y")["X-Request-ID"] == "a%0D%0AX:%20y"


def test_an_endpoint_does_not_show_its_secrets() -> None:
    assert "hush" not in repr(endpoint("Bearer hush", "whsec_hush"))


@pytest.mark.parametrize("size", [24, 32, 64])
def test_a_secret_of_a_standard_size_is_taken(size: int) -> None:
    encoded = base64.b64encode(bytes(size)).decode()
    check_secret(f"whsec_{encoded}")
    check_secret(f"whsec_{encoded.rstrip('=')}")


@pytest.mark.parametrize(
    "secret",
    [
        "",
        "whsec_",
        SECRET.removeprefix("whsec_"),
        "whsec_" + "?" * 32,
        "whsec_" + "ä" * 32,
        "whsec_" + base64.b64encode(bytes(23)).decode(),
        "whsec_" + base64.b64encode(bytes(65)).decode(),
        SECRET + "\n",
    ],
)
def test_any_other_secret_is_refused_and_not_repeated(secret: str) -> None:
    with pytest.raises(WrongParameter, match="signingSecret must be 'whsec_' followed by") as caught:
        check_secret(secret)
    assert len(secret) < 10 or secret not in caught.value.message


@pytest.mark.parametrize("text", ["Bearer abc.def", "Basic dXNlcg==", "token"])
def test_an_authorization_is_visible_ascii(text: str) -> None:
    assert header_value(text)


@pytest.mark.parametrize("text", ["", " Bearer x", "Bearer x\r\nX: y", "Bearer ä", "Bearer x\n", "a\x00b"])
def test_any_other_authorization_is_refused(text: str) -> None:
    assert not header_value(text)


def test_an_idempotency_key_names_the_plugin_call_and_fits_a_header() -> None:
    assert PluginCall("job-1", "gate", "quota/a b", 2).idempotency_key == "job-1:gate:quota/a%20b:2"
    assert PluginCall("job-1", "gate", "配额").idempotency_key == "job-1:gate:%E9%85%8D%E9%A2%9D:1"


def test_a_packet_is_json_whatever_its_texts() -> None:
    body = Packet(
        {"gpu": [{"topic": "gpu", "advice": 1, "reason": ""}]}, {"name": "配额 \ud800"}, {"kind": "x"}
    ).encode()
    assert json.loads(body)["header"] == {"name": "配额 \ud800"}
    assert list(json.loads(body)) == ["factors", "header", "job"]


def test_a_packet_has_no_nan() -> None:
    with pytest.raises(ValueError, match="Out of range"):
        Packet({}, {}, {"x": float("nan")}).encode()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"plain", "plain"),
        (b" two\r\n\tlines\x1b[31m ", "two lines [31m"),
        (b"\xff\x00", "\ufffd"),
        ("x" * 300, "x" * 199 + "…"),
        ("you sent Bearer hush", "you sent ***"),
        ("key hush!", "key ***!"),
    ],
)
def test_untrusted_text_is_cleaned_and_cut(text: str | bytes, expected: str) -> None:
    assert clean(text, hide=["Bearer hush", "hush"]) == expected
