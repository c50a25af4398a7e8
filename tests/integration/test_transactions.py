"""What a transaction makes of a database that is unavailable."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import structlog
from sqlalchemy import Integer, bindparam, cast, func, select, text
from sqlalchemy.exc import DataError, ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from pipeline_core.database import connected, execute_alone, log_lines, own_transaction, transaction
from pipeline_core.database.locks import Lock, lock
from pipeline_core.database.prepared import Prepared
from pipeline_core.errors import Unavailable
from pipeline_core.settings import settings

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


def test_each_statement_without_a_session_is_a_transaction_of_its_own_and_the_next_transaction_is_a_whole() -> None:
    begun = text("SELECT now() = statement_timestamp() AND pg_current_xact_id_if_assigned() IS NULL")
    with connected() as connection:
        connection.execute(text("SELECT pg_current_xact_id()"))
        assert connection.execute(begun).scalar_one()
    with transaction() as session:
        session.execute(text("SELECT pg_current_xact_id()"))
        assert not session.execute(begun).scalar_one()


def test_the_only_statement_of_a_session_may_be_a_transaction_of_its_own_but_not_one_after_others() -> None:
    number = text("SELECT pg_current_xact_id()")
    with transaction() as session, own_transaction(session.connection()):
        assert session.execute(number).scalar_one() != session.execute(number).scalar_one()
    with transaction() as session:
        first = session.execute(number).scalar_one()
        with own_transaction(session.connection()):
            assert session.execute(number).scalar_one() == first
        assert session.execute(number).scalar_one() == first
    for _ in range(settings().database_connections + 1):
        with pytest.raises(Unavailable), transaction() as session, own_transaction(session.connection()):
            session.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))
    with transaction() as session:
        assert session.execute(number).scalar_one() == session.execute(number).scalar_one()


def test_a_connection_without_a_session_that_the_server_ends_costs_the_pool_nothing() -> None:
    for _ in range(settings().database_connections + 1):
        with pytest.raises(Unavailable), connected() as connection:
            connection.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))
    with connected() as connection:
        assert connection.execute(text("SELECT 1")).scalar_one() == 1


END_SESSION = Prepared(select(func.pg_terminate_backend(func.pg_backend_pid())))
TRANSACTION = Prepared(select(func.pg_current_xact_id().label("id")))
NUMBER = Prepared(select(cast(bindparam("number"), Integer).label("number")))


def test_a_statement_alone_is_a_transaction_of_its_own_and_the_next_transaction_is_a_whole() -> None:
    first, second = (execute_alone(TRANSACTION, {})[0].id for _ in range(2))
    assert first != second
    with transaction() as session:
        ids = {TRANSACTION.execute(session.connection(), {}).scalar_one() for _ in range(2)}
    assert len(ids) == 1


def test_a_statement_alone_whose_connection_the_server_ends_is_unavailability_and_costs_the_pool_nothing() -> None:
    for _ in range(settings().database_connections + 1):
        with pytest.raises(Unavailable):
            execute_alone(END_SESSION, {})
    assert [row.number for row in execute_alone(NUMBER, {"number": 1})] == [1]


def test_the_text_of_an_error_of_a_statement_alone_has_no_values_and_the_connection_stays() -> None:
    for _ in range(settings().database_connections + 1):
        with pytest.raises(DataError) as failed:
            execute_alone(NUMBER, {"number": "x, a password"})
        assert "\n" not in str(failed.value.orig)
        assert "EXECUTE" not in str(failed.value)
    assert execute_alone(NUMBER, {"number": 1})[0].number == 1


def test_a_statement_alone_without_a_server_is_unavailability(
    monkeypatch: pytest.MonkeyPatch, fresh_runtime: Callable[[], None]
) -> None:
    monkeypatch.setenv("PIPELINE_DATABASE_URL", "postgresql://127.0.0.1:1/none")
    fresh_runtime()
    with pytest.raises(Unavailable, match="away"):
        execute_alone(NUMBER, {"number": 1})


def _change_in_vain() -> None:
    with transaction() as session:
        log_lines.note(session, "lost", request_id="r1")
        session.execute(text("SELECT nothing"))


def test_a_log_line_is_written_when_its_transaction_has_committed_and_not_otherwise() -> None:
    # Requests that other tests have made in this process left theirs.
    structlog.contextvars.clear_contextvars()
    with structlog.testing.capture_logs() as lines:
        with pytest.raises(ProgrammingError):
            _change_in_vain()
        with transaction() as session:
            log_lines.note(session, "kept", request_id="r1", job_id="j1")
            assert lines == []
        with structlog.contextvars.bound_contextvars(request_id="r2"), transaction() as session:
            log_lines.note(session, "asked for", request_id="r1")
    assert lines == [
        {"event": "kept", "log_level": "info", "request_id": "r1", "job_id": "j1"},
        {"event": "asked for", "log_level": "info", "request_id": "r2"},
    ]


def test_the_text_of_an_error_has_no_values_of_its_statement() -> None:
    with pytest.raises(DataError) as failed, transaction() as session:
        session.execute(text("SELECT CAST(:value AS integer), :document"), {"value": "x", "document": "a password"})
    assert "a password" not in str(failed.value)
