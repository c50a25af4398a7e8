"""Alerts as the webhooks of chats take them: the address, the body, and what is read of the answer.

- Slack, incoming webhooks: https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks
- DingTalk, custom robots: https://open.dingtalk.com/document/orgapp/custom-robots-send-group-messages
- Feishu, custom bots: https://open.feishu.cn/document/client-docs/bot-v3/add-custom-bot

Fields, signatures and answers are those of public clients, with which they were compared: of Slack and DingTalk, apprise 2.3
(`slack.py`, `dingtalk.py`) and DingtalkChatbot 1.5; of Feishu, apprise (`feishu.py`) for the answer, and
https://github.com/lenye/pmsg (docs/feishu/bot_message.md) for a post.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import urlencode, urlsplit

from pipeline_core.common import strict_json
from pipeline_core.common.strict_json import NotStrict
from pipeline_core.hooks import alert_texts
from pipeline_core.hooks.receivers import AlertFormat
from pipeline_core.plugins.answers import Acknowledgement
from pipeline_core.plugins.errors import BadAnswer, clean

_CODES = {AlertFormat.DINGTALK: ("errcode", "errmsg"), AlertFormat.FEISHU: ("code", "msg")}
"""Where an answer has its code, which is 0 if the message was taken, and a text for it: the HTTP status is 200 anyway."""


def address(format: AlertFormat, url: str, secret: str, moment: datetime) -> str:
    """Where a request of this moment goes to: DingTalk wants its signature in the query."""
    if format is not AlertFormat.DINGTALK or not secret:
        return url
    timestamp = str(round(moment.timestamp() * 1000))
    signature = _hmac(secret.encode(), f"{timestamp}\n{secret}".encode())
    return f"{url}{'&' if urlsplit(url).query else '?'}{urlencode({'timestamp': timestamp, 'sign': signature})}"


def body(format: AlertFormat, document: Mapping[str, Any], secret: str, moment: datetime) -> dict[str, Any]:
    """The body of a request of this moment that says what the alert says."""
    match format:
        case AlertFormat.SLACK:
            return _slack(document)
        case AlertFormat.DINGTALK:
            return _dingtalk(document)
        case AlertFormat.FEISHU:
            return _feishu(document) | (_feishu_signature(secret, moment) if secret else {})
        case _:
            raise ValueError(f"{format} is no format of a chat")


def acknowledgement(format: AlertFormat, answer: bytes) -> Acknowledgement:
    """What an answer with status 200 means. Raises BadAnswer unless the chat took the message."""
    if format not in _CODES:
        return Acknowledgement.OK
    code, message = _CODES[format]
    try:
        document = strict_json.parse(answer)
    except NotStrict:
        document = None
    if not isinstance(document, dict) or not isinstance(document.get(code), int):
        raise BadAnswer(f"answered '{clean(answer)}'; JSON with the number `{code}` was expected")
    if document[code] != 0:
        raise BadAnswer(f"{code} {document[code]}: {clean(str(document.get(message, '')))}")
    return Acknowledgement.OK


def _slack(document: Mapping[str, Any]) -> dict[str, Any]:
    link = alert_texts.link(document)
    text = [f"*{_escaped(alert_texts.title(document))}*", *map(_escaped, alert_texts.lines(document))]
    return {"text": "\n".join(text + ([f"<{_escaped(link)}>"] if link else []))}


def _escaped(text: str) -> str:
    """Without this, a name could mention everybody in the channel."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _dingtalk(document: Mapping[str, Any]) -> dict[str, Any]:
    # A text and no Markdown: names come from users, and could be links to anywhere.
    text = [alert_texts.title(document), *alert_texts.lines(document), alert_texts.link(document)]
    return {"msgtype": "text", "text": {"content": "\n".join(filter(None, text))}}


def _feishu(document: Mapping[str, Any]) -> dict[str, Any]:
    # In a post, unlike in a text, a name cannot mention everybody (`<at user_id="all">`).
    content: list[list[dict[str, str]]] = [[{"tag": "text", "text": line}] for line in alert_texts.lines(document)]
    if link := alert_texts.link(document):
        content.append([{"tag": "a", "text": link, "href": link}])
    return {
        "msg_type": "post",
        "content": {"post": {"en_us": {"title": alert_texts.title(document), "content": content}}},
    }


def _feishu_signature(secret: str, moment: datetime) -> dict[str, str]:
    timestamp = str(int(moment.timestamp()))
    return {"timestamp": timestamp, "sign": _hmac(f"{timestamp}\n{secret}".encode(), b"")}


def _hmac(key: bytes, text: bytes) -> str:
    return base64.b64encode(hmac.new(key, text, hashlib.sha256).digest()).decode()
