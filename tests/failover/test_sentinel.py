"""The primary of Valkey is killed under load, and its Sentinels promote the replica."""

from __future__ import annotations

from pathlib import Path

from pipeline_core.common.redis import connect
from tests.chaos.world import a_world
from tests.failover.load import Record, under_load
from tests.failover.sentinel import watched_by_sentinels
from tests.failover.twins import ALL, doubled
from tests.waiting import wait_for

PROMISE = "no request is refused; lost messages are found by ticks; no process is started again"


def test_a_replica_takes_over(
    tmp_path: Path, postgres_url: str, migrated_database: str, record_property: Record
) -> None:
    with (
        watched_by_sentinels(tmp_path) as (primary, replica, url),
        a_world(tmp_path / "world", postgres_url, migrated_database, url, prepare=doubled) as world,
    ):
        world.service.start(*ALL)
        with under_load(world, PROMISE, record_property) as load:
            load.kill(primary.vanish)
            with connect(replica.url, 2) as client:
                wait_for(lambda: client.info("replication")["role"] == "master", "the replica to be promoted")
            load.note("seconds until it is promoted")
        assert not load.refused
