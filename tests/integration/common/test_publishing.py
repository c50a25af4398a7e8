"""Wake-ups on their way to a real Redis, and to one that does not answer."""

from __future__ import annotations

import base64
import json
import socket
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from celery import Celery
from celery import chain as celery_chain
from kombu import Connection, Producer
from redis import Redis

from pipeline_core import runtime
from pipeline_core.common.redis import outage
from pipeline_core.database.wakeups import CleanupDue, RunDue, StepDue
from pipeline_core.settings import settings
from pipeline_core.stages.names import STAGES, Stage
from tests.waiting import wait_for
from workers import chain, publish, transport
from workers.app import configuration
from workers.names import FLOWS, TICKS, stage_queue, stage_task


@pytest.fixture
def connect(redis_url: str, prefix: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Have this process publish to the Redis at that URL, at first to the tests' own."""
    runtime.install(runtime.Runtime())

    def to(url: str) -> None:
        options = {"global_keyprefix": prefix, **publish.TIMEOUTS}
        connection = partial(Connection, url, transport=transport.NAME, transport_options=options)
        monkeypatch.setattr(publish, "connect", connection)

    to(redis_url)
    yield to
    runtime.install(runtime.Runtime())


@pytest.fixture
def silent_url() -> Iterator[str]:
    """A server that accepts connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"redis://127.0.0.1:{server.getsockname()[1]}/0"


def messages(redis: Redis, key: str) -> list[dict[str, Any]]:
    """The messages of a queue, the oldest first, with their bodies readable."""
    found = [json.loads(message) for message in reversed(redis.lrange(key, 0, -1))]
    return [{**message, "body": json.loads(base64.b64decode(message["body"]))} for message in found]


def without_ids(value: Any) -> Any:
    """The same without what is another for each message, and without what a process adds that has imported the tasks."""
    own = {"id", "root_id", "task_id", "correlation_id", "delivery_tag", "reply_to", "ignore_result", "timelimit"}
    if isinstance(value, dict):
        return {key: without_ids(inner) for key, inner in value.items() if key not in own}
    return [without_ids(inner) for inner in value] if isinstance(value, list) else value


@pytest.mark.parametrize("stages", [STAGES, STAGES[3:], STAGES[-1:]], ids=len)
def test_the_message_of_a_chain_is_what_celery_sends(
    stages: tuple[Stage, ...],
    connect: Callable[[str], None],
    redis: Redis,
    redis_url: str,
    prefix: str,
) -> None:
    with publish.connect() as connection:
        chain.send("job", 3, stages, Producer(connection.channel(), auto_declare=False))
    other = Celery(set_as_current=False)
    options = {"broker_url": redis_url, "broker_transport_options": {"global_keyprefix": prefix}}
    other.config_from_object({**configuration(settings()), **options})
    signatures = (
        other.signature(stage_task(stage), ("job", 3, str(stage)), immutable=True, queue=stage_queue(stage))
        for stage in stages
    )
    celery_chain(*signatures, app=other).apply_async()
    other.close()
    own, celery = messages(redis, prefix + stage_queue(stages[0]))
    assert without_ids(own) == without_ids(celery)
    following = own["body"][2]["chain"] or []
    assert [task["args"][2] for task in reversed(following)] == list(stages[1:])
    assert len({own["headers"]["id"], *(task["options"]["task_id"] for task in following)}) == len(stages)


def test_all_that_was_gathered_is_sent_when_the_process_ends(
    connect: Callable[[str], None], redis: Redis, prefix: str
) -> None:
    publish.publish([StepDue("job", 0, Stage.BIND), RunDue("run")])
    publish.publish([CleanupDue("job")])
    publish.publisher().close()
    found = {key.removeprefix(prefix): redis.llen(key) for key in redis.scan_iter(f"{prefix}*")}
    assert found == {stage_queue(Stage.BIND): 1, FLOWS: 1, TICKS: 1}


def test_wakeups_are_sent_although_redis_has_closed_the_connection(
    connect: Callable[[str], None], redis: Redis, prefix: str
) -> None:
    publish.publish([RunDue("before")])
    wait_for(lambda: redis.llen(prefix + FLOWS) == 1)
    redis.client_kill_filter(_type="normal", skipme=True)
    publish.publish([RunDue("after")])
    publish.publisher().close()
    assert [message["body"][0] for message in messages(redis, prefix + FLOWS)] == [["before"], ["after"]]
    assert not outage().present


def test_nobody_who_publishes_waits_for_a_silent_redis(connect: Callable[[str], None], silent_url: str) -> None:
    connect(silent_url)
    publish.publish([RunDue("run")])
    assert not outage().present, "the publisher waits for Redis, and nobody else does"
    wait_for(lambda: outage().present)
