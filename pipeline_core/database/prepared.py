"""Prepared statements: PostgreSQL plans each once for each of its sessions, not for each execution.

`PREPARE` belongs to a session of PostgreSQL. So a connection's first execution of a statement prepares it in the same round trip.
Behind PgBouncer in transaction mode a connection gets another session now and then: one that has not prepared the statement yet,
or has done so for another connection. Its error says so, and the statement is executed as that session needs it. Names come from
the texts of statements, so two versions of the service do not collide.

Such an error ends the transaction that it is in. So a statement is prepared only where it begins its transaction, or is a
transaction by itself; elsewhere it is executed as others are.
"""

from __future__ import annotations

import hashlib
import re
from collections import namedtuple
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, cast

from psycopg2 import errors
from psycopg2.extensions import STATUS_READY
from sqlalchemy import ClauseElement, Connection, CursorResult, Engine, event
from sqlalchemy.dialects.postgresql.psycopg2 import PGDialect_psycopg2
from sqlalchemy.engine import Dialect, ExecutionContext
from sqlalchemy.sql.compiler import SQLCompiler

_OPTION = {"prepared": True}
_KNOWN = "prepared"
_PARAMETER = re.compile(r"%\((\w+)\)s")


class Prepared:
    """A statement that is built and compiled once, and prepared where it can be.

    Its text must not depend on its parameters, and PostgreSQL must be able to see the type of each parameter from where it
    stands: cast it where it cannot.
    """

    def __init__(self, statement: ClauseElement) -> None:
        dialect: Dialect = PGDialect_psycopg2()  # type: ignore[no-untyped-call]
        compiled = cast(SQLCompiler, statement.compile(dialect=dialect))
        self.text = str(compiled)
        self._constants = {name: bind.value for name, bind in compiled.binds.items() if not bind.required}
        self._make_row = _row_of([column.keyname for column in compiled._result_columns])

    def execute(self, connection: Connection, parameters: Mapping[str, Any]) -> CursorResult[Any]:
        """Execute it. Parameters and results are as the driver has them: documents are texts."""
        return connection.exec_driver_sql(self.text, {**self._constants, **parameters}, execution_options=_OPTION)

    def execute_by_driver(self, connection: Any, info: dict[Any, Any], parameters: Mapping[str, Any]) -> list[Any]:
        """The same by a connection of the driver that is in no transaction: its rows, as named tuples.

        `info` is what SQLAlchemy's pool keeps of the connection.
        """
        values = {**self._constants, **parameters}
        with connection.cursor() as cursor:
            if not _execute_prepared(cursor, self.text, values, info):
                cursor.execute(self.text, values)
            return [self._make_row(row) for row in cursor.fetchall()]


def _row_of(names: list[str]) -> Callable[[Any], Any]:
    row: Any = namedtuple("row", names)  # type: ignore[misc]
    return row._make


def prepare_marked(engine: Engine) -> None:
    """Let the engine prepare the statements that are executed by `Prepared`."""

    @event.listens_for(engine, "do_execute")
    def execute(cursor: Any, statement: str, parameters: Any, context: ExecutionContext) -> bool | None:
        if "prepared" not in context.execution_options or cursor.connection.status != STATUS_READY:
            return None
        return _execute_prepared(cursor, statement, parameters, context.root_connection.info) or None


def _execute_prepared(cursor: Any, statement: str, parameters: Any, info: dict[Any, Any]) -> bool:
    """Whether it was executed: not if the session has it neither prepared nor not prepared, because a pooler has changed
    the session in between."""
    known: set[str] = info.setdefault(_KNOWN, set())
    preparing, executing = texts(statement)
    ways = [f"{preparing}; {executing}", executing]
    if statement in known:
        ways.reverse()
    known.add(statement)
    for way in ways:
        try:
            cursor.execute(way, parameters)
        except (errors.InvalidSqlStatementName, errors.DuplicatePreparedStatement):
            cursor.connection.rollback()
        else:
            return True
    return False


@lru_cache(maxsize=256)
def texts(statement: str) -> tuple[str, str]:
    """The texts that prepare a statement with `%(name)s` parameters, and that execute it with the same parameters."""
    names = list(dict.fromkeys(_PARAMETER.findall(statement)))
    numbered = _PARAMETER.sub(lambda found: f"${names.index(found[1]) + 1}", statement)
    name = f"pipeline_{hashlib.sha256(statement.encode()).hexdigest()[:16]}"
    values = ", ".join(f"%({each})s" for each in names)
    return f"PREPARE {name} AS {numbered}", f"EXECUTE {name}" + (f" ({values})" if values else "")
