"""What a transaction makes of a database that is unavailable."""

from __future__ import annotations

import pytest
from sqlalchemy import text
from sqlalchemy.exc import TimeoutError as PoolTimeout

from pipeline_core.database import transaction
from pipeline_core.database.locks import Lock, lock
from pipeline_core.errors import Unavailable

pytestmark = pytest.mark.usefixtures("service_settings")


def test_a_connection_pool_without_a_free_connection_is_unavailability() -> None:
    with pytest.raises(Unavailable), transaction():
        raise PoolTimeout("QueuePool limit")


def test_a_lock_that_others_hold_for_too_long_is_not_a_database_that_is_away() -> None:
    with transaction() as holder:
        lock(holder, Lock.PORTS)
        with pytest.raises(Unavailable, match="Others have held for too long"), transaction() as session:
            session.execute(text(f"SET LOCAL lock_timeout = 50; SELECT pg_advisory_xact_lock({int(Lock.PORTS)})"))


def test_a_connection_that_the_server_ends_is_unavailability_and_the_next_transaction_has_another() -> None:
    with pytest.raises(Unavailable), transaction() as session:
        session.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))
    with transaction() as session:
        assert session.execute(text("SELECT 1")).scalar_one() == 1
