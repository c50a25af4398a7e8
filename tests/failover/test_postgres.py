"""The primary is killed under load, and its synchronous standby promoted."""

from __future__ import annotations

from pathlib import Path

from tests.chaos.world import a_world_on
from tests.failover.load import Record, under_load
from tests.failover.postgres import primary_and_standby
from tests.failover.twins import ALL, doubled
from tests.waiting import wait_for

PROMISE = "no job and no event is lost; requests get 503 until the standby is promoted; no process is started again"


def test_a_standby_takes_over(tmp_path: Path, redis_url: str, record_property: Record) -> None:
    with (
        primary_and_standby(tmp_path) as (primary, standby, url),
        a_world_on(tmp_path / "world", url, redis_url, prepare=doubled) as world,
    ):
        world.service.start(*ALL)
        with under_load(world, PROMISE, record_property) as load:
            load.kill(primary.vanish)
            wait_for(lambda: load.refused, "a request to be refused")
            standby.promote()
            load.note("seconds until it is promoted")
