from __future__ import annotations

import pytest
from redis import Redis

from pipeline_core.common import woken
from pipeline_core.common.woken import Kind
from pipeline_core.settings import Settings


@pytest.mark.parametrize("kind", list(Kind))
def test_one_wake_up_is_on_its_way_at_a_time(kind: Kind, service_settings: Settings) -> None:
    assert woken.note(kind, "k")
    assert not woken.note(kind, "k")
    assert woken.note(kind, "another")
    woken.arrived(kind, "k")
    assert woken.note(kind, "k")
    redis = Redis.from_url(service_settings.redis_url)
    ttl = redis.pttl(f"{service_settings.redis_prefix}woken:{kind}:k")
    assert 0 < ttl <= service_settings.wake_after_seconds * 1000, "a lost one does not hold up the next for ever"


def test_kinds_do_not_concern_each_other() -> None:
    assert woken.note(Kind.RUN, "both")
    assert woken.note(Kind.SUBSCRIBER, "both")
