"""What a transaction makes of a database that cannot be had."""

from __future__ import annotations

import pytest
from sqlalchemy import text
from sqlalchemy.exc import TimeoutError as PoolTimeout

from pipeline_core.database import transaction
from pipeline_core.errors import Unavailable

pytestmark = pytest.mark.usefixtures("service_settings")


def test_a_connection_pool_without_a_free_connection_is_unavailability() -> None:
    with pytest.raises(Unavailable), transaction():
        raise PoolTimeout("QueuePool limit")


def test_a_connection_that_the_server_ends_is_unavailability_and_the_next_transaction_has_another() -> None:
    with pytest.raises(Unavailable), transaction() as session:
        session.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))
    with transaction() as session:
        assert session.execute(text("SELECT 1")).scalar_one() == 1
