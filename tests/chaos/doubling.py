"""The service with every message sent twice.

Loaded in front of the service itself: by gunicorn as its configuration, by Celery as the module of its app.
"""

from __future__ import annotations

from typing import Any

from kombu.transport import redis

from workers.app import app

_put = redis.Channel._put


def _put_twice(channel: redis.Channel, queue: str, message: dict[str, Any], **options: Any) -> None:
    _put(channel, queue, message, **options)
    _put(channel, queue, message, **options)


redis.Channel._put = _put_twice

__all__ = ["app"]
