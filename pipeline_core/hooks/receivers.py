"""The receivers of alerts, as `PIPELINE_ALERT_URL` names them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import SplitResult, unquote, urlsplit

from sqlalchemy import ColumnElement, and_, or_
from sqlalchemy.orm import InstrumentedAttribute

from pipeline_core.plugins.packet import Endpoint
from pipeline_core.plugins.types import PluginType
from pipeline_core.settings import AlertSettings

ALERTS = "alerts"
"""The alert receiver in place of a plugin key, `alerts:NAME` if it has a name; a plugin's key has dots."""


class AlertFormat(StrEnum):
    """What a receiver of alerts gets: JSON, what the webhook of a chat takes, or mail."""

    JSON = "json"
    SLACK = "slack"
    DINGTALK = "dingtalk"
    FEISHU = "feishu"
    MAIL = "mail"


@dataclass(frozen=True, slots=True)
class Receiver:
    """Where alerts are delivered, and how. The `address` of a receiver of mail is a mail address; `secret` is what a chat's
    requests are signed with."""

    endpoint: Endpoint
    format: AlertFormat
    secret: str = field(default="", repr=False)


def receivers(limits: AlertSettings) -> Mapping[str, Receiver]:
    """The receivers of alerts by their keys."""
    found = (_receiver(f"{ALERTS}:{name}" if name else ALERTS, url, limits) for name, url in limits.alert_url)
    return {receiver.endpoint.key: receiver for receiver in found}


def is_alert(key: InstrumentedAttribute[str]) -> ColumnElement[bool]:
    """Whether a delivery with this `plugin_key` is an alert."""
    return or_(key == ALERTS, and_(key.startswith(f"{ALERTS}:"), ~key.contains(".")))


def is_receiver(key: str) -> bool:
    """Whether this is the key of a receiver of alerts, also of one that is not set any more."""
    return key == ALERTS or (key.startswith(f"{ALERTS}:") and "." not in key)


def _receiver(key: str, url: str, limits: AlertSettings) -> Receiver:
    parts = urlsplit(url)
    if parts.scheme == "mailto":
        return Receiver(_endpoint(key, unquote(parts.path)), AlertFormat.MAIL)
    if "+" in parts.scheme:
        chat, _, scheme = parts.scheme.partition("+")
        return Receiver(
            _endpoint(key, _without_user(parts, scheme)), AlertFormat(chat), secret=unquote(parts.password or "")
        )
    return Receiver(
        Endpoint(
            key=key,
            type=PluginType.LIFE_HOOK,
            address=url,
            authorization=limits.alert_authorization,
            signing_secret=limits.alert_signing_secret,
            max_attempts=1,
        ),
        AlertFormat.JSON,
    )


def _endpoint(key: str, address: str) -> Endpoint:
    return Endpoint(key=key, type=PluginType.LIFE_HOOK, address=address, max_attempts=1)


def _without_user(parts: SplitResult, scheme: str) -> str:
    return parts._replace(scheme=scheme, netloc=parts.netloc.rpartition("@")[2]).geturl()
