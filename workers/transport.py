"""kombu's Redis transport without bookkeeping in Redis, and with junk discarded.

For each message that a worker takes, kombu writes an entry into a hash and an index in Redis, and removes it when the message is
acknowledged, so that messages of dead workers can be redelivered. That costs more than all else that a message does, and nobody
relies on it: what is due is in PostgreSQL, and ticks find it (`pipeline_core.jobs.sweep`). So this transport keeps in memory
which messages were taken, to limit their number; a worker that is stopped puts those back which it has not finished.

Whoever can write to Redis can put anything into a queue. kombu's transport raises in the worker's loop for what is no JSON, or
lacks what every message has, and the worker ends. Here it becomes a message without a task, which Celery logs and discards.
"""

from __future__ import annotations

import base64
import uuid
from queue import Empty
from typing import Any

import structlog
from kombu.transport import redis
from kombu.utils.url import as_url
from redis.sentinel import Sentinel

from pipeline_core.common.redis import sentinel_options
from pipeline_core.settings.sentinel import SCHEME, SentinelUrl, is_sentinel

log = structlog.get_logger(__name__)

NAME = f"{__name__}:Transport"
"""What Celery's setting `broker_transport` names it by."""
SENTINEL_NAME = f"{__name__}:SentinelTransport"
"""The name of the transport that asks Sentinels for the primary."""
SENTINEL_SECONDS = 1.0
"""How long it waits for each of them."""


def broker(url: str) -> dict[str, Any]:
    """Celery's settings of the broker at the URL of `PIPELINE_REDIS_URL`; of the transport's options those that depend on it."""
    if not is_sentinel(url):
        return {"broker_url": url, "broker_transport": NAME, "broker_transport_options": {}}
    found = SentinelUrl.parse(url)
    host, port = found.sentinels[0]
    return {
        # One Sentinel only: from a list kombu would choose transports of its own.
        "broker_url": as_url(SCHEME, host, port, found.username, found.password, str(found.database)),
        "broker_transport": SENTINEL_NAME,
        "broker_transport_options": {
            "master_name": found.master,
            "sentinels": found.sentinels,
            "sentinel_kwargs": sentinel_options(found, SENTINEL_SECONDS),
        },
    }


class Channel(redis.Channel):
    """A channel that writes nothing for a message that it takes, and puts it back when it is closed before the message is
    acknowledged."""

    connection: Transport
    ack_emulation = False
    _sending: Any = None

    def _create_client(self, asynchronous: bool = False) -> Any:
        """One client for all messages that are sent: kombu makes one for each, which takes longer than to send it."""
        kombu: Any = super()
        if asynchronous:
            return kombu._create_client(asynchronous=True)
        if self._sending is None or self._sending.connection_pool is not self.pool:
            self._sending = kombu._create_client()
        return self._sending

    def _brpop_read(self, **options: Any) -> Any:
        kombu: Any = super()
        delivered = self.connection.delivered
        try:
            return kombu._brpop_read(**options)
        except (ValueError, TypeError, ArithmeticError, RecursionError) as error:
            if self.connection.delivered != delivered:
                raise
            log.warning("message discarded: it is not one", error=str(error)[:200])
            raise Empty from None

    def _receive_one(self, client: Any) -> Any:
        kombu: Any = super()
        try:
            return kombu._receive_one(client)
        except RecursionError:
            raise Empty from None


class Transport(redis.Transport):
    """The transport; see the module's docstring."""

    Channel = Channel
    # When Redis becomes unavailable again while a lost connection is being closed, kombu's transport raises AttributeError on
    # its own closed client, and the worker would exit. Reconnect instead, as kombu already does for a KeyError.
    connection_errors = (*redis.Transport.connection_errors, AttributeError)

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.delivered = 0

    def _deliver(self, message: Any, queue: str | None) -> None:
        self.delivered += 1
        super()._deliver(message if usable(message) else discarded(), queue)


class SentinelChannel(Channel, redis.SentinelChannel):
    """A channel to the primary that all the Sentinels of the option `sentinels` know, not only the one in the broker's URL."""

    from_transport_options = (*redis.SentinelChannel.from_transport_options, "sentinels")

    def _sentinel_managed_pool(self, asynchronous: bool = False) -> Any:
        kombu: Any = self
        parameters = kombu._connparams(asynchronous)
        for name in ("host", "port"):
            parameters.pop(name, None)
        manager = Sentinel(kombu.sentinels, sentinel_kwargs=kombu.sentinel_kwargs, **parameters)
        setattr(self, "_async_sentinel_manager" if asynchronous else "_sentinel_manager", manager)
        return manager.master_for(kombu.master_name).connection_pool


class SentinelTransport(Transport):
    """The transport for a broker whose primary is found by Sentinels."""

    Channel = SentinelChannel


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
