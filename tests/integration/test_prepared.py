"""Statements that PostgreSQL prepares, also when a pooler gives a connection another session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, Integer, bindparam, cast, literal_column, select, text

from pipeline_core.database import connected, transaction
from pipeline_core.database.prepared import Prepared, texts

pytestmark = pytest.mark.usefixtures("service_settings")

DOUBLE = Prepared(select((cast(bindparam("number"), Integer) * literal_column("2")).label("twice")))
PREPARE = text(texts(DOUBLE.text)[0].replace("%(number)s", "$1"))


@pytest.fixture
def connection() -> Iterator[Connection]:
    with connected() as connection:
        connection.execute(text("DEALLOCATE ALL"))
        connection.info.pop("prepared", None)
        yield connection


def double(connection: Connection, number: int) -> int:
    twice: int = DOUBLE.execute(connection, {"number": number}).scalar_one()
    return twice


def prepared_here(connection: Connection) -> list[tuple[int, int]]:
    """How often each prepared statement was planned: for given parameters, and for any."""
    found = connection.execute(text("SELECT custom_plans, generic_plans FROM pg_prepared_statements"))
    return [(row.custom_plans, row.generic_plans) for row in found]


def test_a_session_prepares_a_statement_once_and_soon_plans_it_no_more(connection: Connection) -> None:
    assert [double(connection, number) for number in range(8)] == [0, 2, 4, 6, 8, 10, 12, 14]
    assert prepared_here(connection) == [(5, 3)]


def test_a_session_that_has_not_prepared_what_its_connection_has_does_so(connection: Connection) -> None:
    double(connection, 1)
    connection.execute(text("DEALLOCATE ALL"))
    assert double(connection, 2) == 4
    assert len(prepared_here(connection)) == 1


def test_a_session_that_has_prepared_it_for_another_connection_does_not_do_so_again(connection: Connection) -> None:
    connection.execute(PREPARE)
    assert double(connection, 2) == 4
    assert len(prepared_here(connection)) == 1


def test_a_transaction_may_begin_with_a_statement_that_is_not_prepared_yet() -> None:
    for deallocated in (False, True):
        with transaction() as session:
            assert double(session.connection(), 3) == 6
            session.execute(text("CREATE TEMPORARY TABLE kept ON COMMIT DROP AS SELECT 1"))
            assert double(session.connection(), 4) == 8, "later ones are executed as they are"
            if not deallocated:
                session.execute(text("DEALLOCATE ALL"))
