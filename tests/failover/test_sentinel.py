"""The primary of Valkey is killed under load, or steps down, and its Sentinels promote the replica."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pipeline_core.common.redis import connect
from tests.chaos.world import World, a_world
from tests.failover.load import Record, under_load
from tests.failover.sentinel import Servers, watched_by_sentinels
from tests.failover.twins import ALL, doubled
from tests.waiting import wait_for

PROMISE = "no request is refused; lost messages are found by ticks; no process is started again"


@contextmanager
def started(directory: Path, *database: str) -> Iterator[tuple[Servers, World]]:
    """The servers, and an installation on them."""
    with (
        watched_by_sentinels(directory) as servers,
        a_world(directory / "world", *database, servers.url, prepare=doubled) as world,
    ):
        world.service.start(*ALL)
        yield servers, world


@pytest.mark.parametrize("end", [Servers.kill_primary, Servers.step_down], ids=["killed", "steps down"])
def test_a_replica_takes_over(
    tmp_path: Path, postgres_url: str, migrated_database: str, record_property: Record, end: Callable[[Servers], Any]
) -> None:
    with (
        started(tmp_path, postgres_url, migrated_database) as (servers, world),
        under_load(world, PROMISE, record_property) as load,
    ):
        load.kill(lambda: end(servers))
        with connect(servers.replica.url, 2) as client:
            wait_for(lambda: client.info("replication")["role"] == "master", "the replica to be promoted")
        load.note("seconds until it is promoted")
    assert not load.refused
