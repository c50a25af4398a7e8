"""The requests that chats take, against the shapes that their makers document, and their answers."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jsonschema
import pytest

from pipeline_core.hooks.chats import acknowledgement, address, body
from pipeline_core.hooks.receivers import AlertFormat
from pipeline_core.plugins.answers import Acknowledgement
from pipeline_core.plugins.errors import BadAnswer
from tests.unit.hooks.test_alert_texts import alert

MOMENT = datetime(2026, 3, 1, 12, 0, 0, 123000, tzinfo=UTC)
CHATS = (AlertFormat.SLACK, AlertFormat.DINGTALK, AlertFormat.FEISHU)
TEXT = {"type": "string", "minLength": 1}


def shape(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


SHAPES = {
    AlertFormat.SLACK: shape(text=TEXT | {"maxLength": 40000}),
    AlertFormat.DINGTALK: shape(msgtype={"const": "text"}, text=shape(content=TEXT)),
    AlertFormat.FEISHU: shape(
        msg_type={"const": "post"},
        content=shape(
            post=shape(
                en_us=shape(
                    title=TEXT,
                    content={
                        "type": "array",
                        "items": {
                            "type": "array",
                            "items": {
                                "oneOf": [
                                    shape(tag={"const": "text"}, text=TEXT),
                                    shape(tag={"const": "a"}, text=TEXT, href=TEXT),
                                ]
                            },
                        },
                    },
                )
            )
        ),
    ),
}
MOST_BYTES = 20_000
"""Of a request, for DingTalk and for Feishu."""


@pytest.mark.parametrize("format", CHATS)
@pytest.mark.parametrize(
    "document",
    [
        alert(),
        alert(link="/v1/runs/r01", reason="", users=[]),
        alert(flow="\n日" * 5000, reason="漢" * 9999, users=["é" * 99] * 999),
    ],
    ids=["usual", "least", "most"],
)
def test_a_body_has_the_documented_shape_and_size(format: AlertFormat, document: dict[str, Any]) -> None:
    found = body(format, document, "", MOMENT)
    jsonschema.validate(found, SHAPES[format])
    encoded = json.dumps(found, ensure_ascii=False)
    assert len(encoded.encode()) < MOST_BYTES
    assert ("https://pipeline.example/v1/runs/r01" in encoded) is document["link"].startswith("https")


def test_a_name_mentions_nobody_and_is_no_link() -> None:
    names = alert(flow='<!channel> <@U1> & <at user_id="all">', users=["<https://evil.example|safe>"])
    (text,) = body(AlertFormat.SLACK, names, "", MOMENT).values()
    assert "&lt;!channel&gt; &lt;@U1&gt; &amp;" in text
    assert text.count("<") == 1, "the link is our own"
    assert body(AlertFormat.DINGTALK, names, "", MOMENT)["msgtype"] == "text"
    assert body(AlertFormat.FEISHU, names, "", MOMENT)["msg_type"] == "post"


def test_dingtalk_gets_its_signature_in_the_query() -> None:
    url = address(AlertFormat.DINGTALK, "https://oapi.dingtalk.com/robot/send?access_token=t", "SECx", MOMENT)
    found = parse_qs(urlsplit(url).query)
    (timestamp,), (sign,) = found["timestamp"], found["sign"]
    assert (found["access_token"], timestamp) == (["t"], str(int(MOMENT.timestamp() * 1000)))
    assert base64.b64decode(sign) == hmac.digest(b"SECx", f"{timestamp}\nSECx".encode(), hashlib.sha256)
    assert address(AlertFormat.DINGTALK, "https://d.example/a", "SECx", MOMENT).startswith(
        "https://d.example/a?timestamp="
    )


def test_feishu_gets_its_signature_in_the_body() -> None:
    found = body(AlertFormat.FEISHU, alert(), "s", MOMENT)
    timestamp = found["timestamp"]
    assert timestamp == str(int(MOMENT.timestamp()))
    assert base64.b64decode(found["sign"]) == hmac.digest(f"{timestamp}\ns".encode(), b"", hashlib.sha256)


@pytest.mark.parametrize("format", CHATS)
def test_without_a_secret_nothing_is_signed(format: AlertFormat) -> None:
    assert address(format, "https://x.example/?a=b", "", MOMENT) == "https://x.example/?a=b"
    assert "sign" not in body(format, alert(), "", MOMENT)


@pytest.mark.parametrize(
    ("format", "answer"),
    [
        (AlertFormat.SLACK, b"ok"),
        (AlertFormat.DINGTALK, b'{"errcode":0,"errmsg":"ok"}'),
        (AlertFormat.FEISHU, b'{"StatusCode":0,"StatusMessage":"success","code":0,"data":{},"msg":"success"}'),
    ],
)
def test_a_chat_takes_a_message(format: AlertFormat, answer: bytes) -> None:
    assert acknowledgement(format, answer) is Acknowledgement.OK


@pytest.mark.parametrize(
    ("format", "answer", "words"),
    [
        (AlertFormat.DINGTALK, b'{"errcode":310000,"errmsg":"sign not match"}', "errcode 310000: sign not match"),
        (AlertFormat.DINGTALK, b'{"errcode":"0"}', "the number `errcode` was expected"),
        (AlertFormat.FEISHU, b'{"code":19021,"msg":"sign match fail","data":{}}', "code 19021: sign match fail"),
        (AlertFormat.FEISHU, b"<html>", "the number `code` was expected"),
        (AlertFormat.FEISHU, b"[]", "the number `code` was expected"),
    ],
)
def test_a_chat_that_answers_200_with_an_error_has_not_taken_it(format: AlertFormat, answer: bytes, words: str) -> None:
    with pytest.raises(BadAnswer, match=words):
        acknowledgement(format, answer)
