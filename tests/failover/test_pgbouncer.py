"""PgBouncer in transaction mode stands between the service and PostgreSQL, and is killed under load."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest

from pipeline_core.database.engine import SESSION_SETTINGS
from pipeline_core.database.migrate import upgrade
from tests.chaos.world import a_world_on
from tests.failover.load import Record, under_load
from tests.failover.pgbouncer import PROGRAM, SESSIONS, pooled
from tests.failover.twins import ALL, doubled
from tests.servers import fresh_database
from tests.waiting import wait_for

PROMISE = "nothing is lost; requests get 503 until it is back; no process is started again"
IN_USE = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"


@pytest.mark.skipif(PROGRAM is None, reason="there is no pgbouncer: apt-get install pgbouncer")
def test_sessions_are_shared_and_the_pooler_may_be_killed(
    tmp_path: Path, postgres_url: str, redis_url: str, record_property: Record
) -> None:
    with fresh_database(postgres_url) as database_url, pooled(tmp_path / "pgbouncer", database_url) as pooler:
        upgrade(pooler.url)
        # Sessions that were opened before are without the settings that the upgrade gives to their role.
        pooler.stop()
        pooler.start()
        assert settings_of_a_session(pooler.url) == settings_of_a_session(database_url, SESSION_SETTINGS)
        with a_world_on(tmp_path / "world", pooler.url, redis_url, prepare=doubled) as world:
            world.service.start(*ALL)
            with under_load(world, PROMISE, record_property) as load:
                load.kill(pooler.vanish)
                wait_for(lambda: load.refused, "a request to be refused")
                pooler.start()
                load.note("seconds until it is back")
            with closing(psycopg2.connect(database_url)) as connection, connection.cursor() as cursor:
                cursor.execute(IN_USE)
                row = cursor.fetchone()
        assert row
        assert 0 < row[0] <= SESSIONS
        record_property("sessions of PostgreSQL", row[0])


def settings_of_a_session(url: str, given: Mapping[str, str] | None = None) -> list[str]:
    """What the settings of the service's sessions are in a session that is only connected to."""
    with closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
        if given:
            for name, value in given.items():
                cursor.execute(f"SET {name} TO %s", (value,))
        found = []
        for name in SESSION_SETTINGS:
            cursor.execute("SELECT current_setting(%s)", (name,))
            found += [str(value) for (value,) in cursor.fetchall()]
        return found
