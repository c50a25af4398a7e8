"""What arrives from the broker and is no message of Celery's.

Whoever can write to Redis can put anything into a queue. kombu's transport raises in the worker's loop for what is no JSON, or
lacks what every message has, and the worker ends. Here it becomes a message without a task, which Celery logs and discards.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable
from typing import Any

from kombu.transport import redis
from kombu.utils.json import loads


def install() -> None:
    """Let the Redis transport of this process survive what is no message."""
    setattr(redis, "loads", parse)  # noqa: B010
    setattr(redis.Transport, "_deliver", _deliver)  # noqa: B010


def parse(text: str) -> Any:
    """The JSON value; None for what is none."""
    try:
        return loads(text)
    except (ValueError, RecursionError):
        return None


def usable(message: Any) -> bool:
    """Whether kombu and Celery can read the message: its parts are there, and of their types."""
    if not isinstance(message, dict):
        return False
    properties, headers, body = message.get("properties"), message.get("headers", {}), message.get("body")
    if not isinstance(properties, dict) or not isinstance(headers, dict):
        return False
    info = properties.get("delivery_info")
    if not isinstance(info, dict) or not all(isinstance(info.get(name), str) for name in ("exchange", "routing_key")):
        return False
    names = [properties.get("delivery_tag"), headers.get("task", ""), headers.get("id", "")]
    return all(isinstance(name, str) for name in names) and _decodable(body, properties.get("body_encoding"))


def discarded() -> dict[str, Any]:
    """A message that names no task."""
    info = {"exchange": "", "routing_key": ""}
    return {"body": "", "headers": {}, "properties": {"delivery_tag": uuid.uuid4().hex, "delivery_info": info}}


def _decodable(body: Any, encoding: Any) -> bool:
    if body is not None and not isinstance(body, str):
        return False
    try:
        return encoding in (None, "base64") and (encoding is None or base64.b64decode(body or "") is not None)
    except ValueError:
        return False


_kombus: Callable[[Any, Any, str], None] = redis.Transport._deliver


def _deliver(self: Any, message: Any, queue: str) -> None:
    _kombus(self, message if usable(message) else discarded(), queue)
