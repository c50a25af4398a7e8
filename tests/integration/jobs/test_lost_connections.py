"""Transactions on connections that the server has closed meanwhile."""

from __future__ import annotations

import psycopg2
import pytest
from sqlalchemy import select, text

from pipeline_core.database import engine, transaction
from pipeline_core.errors import Unavailable
from pipeline_core.settings import Settings


def end_connections(url: str) -> None:
    """End every connection to this database but this one."""
    connection = psycopg2.connect(url)
    with connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
    connection.close()


def test_a_broken_idle_connection_is_replaced(service_settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    with transaction() as session:
        session.execute(text("SELECT 1"))
    end_connections(service_settings.database_url)
    monkeypatch.setattr(engine, "PING_AFTER_SECONDS", 0)
    with transaction() as session:
        assert session.execute(select(1)).scalar_one() == 1


def test_a_broken_connection_that_was_just_used_raises_unavailable_once(
    service_settings: Settings,
) -> None:
    with transaction() as one, transaction() as other:
        one.execute(text("SELECT 1"))
        other.execute(text("SELECT 1"))
    end_connections(service_settings.database_url)
    with pytest.raises(Unavailable), transaction() as session:
        session.execute(text("SELECT 1"))
    with transaction() as session:
        assert session.execute(select(1)).scalar_one() == 1


def test_a_connection_that_breaks_in_a_transaction_raises_unavailable(service_settings: Settings) -> None:
    def interrupted() -> None:
        with transaction() as session:
            session.execute(text("SELECT 1"))
            end_connections(service_settings.database_url)
            session.execute(text("SELECT 1"))

    with pytest.raises(Unavailable):
        interrupted()


def test_a_server_that_has_become_read_only_is_left_for_another(service_settings: Settings) -> None:
    def on_a_standby() -> None:
        with transaction() as session:
            session.execute(text("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY"))
        with transaction() as session:
            session.execute(text("DELETE FROM leases"))

    with pytest.raises(Unavailable):
        on_a_standby()
    with transaction() as session:
        session.execute(text("DELETE FROM leases"))
