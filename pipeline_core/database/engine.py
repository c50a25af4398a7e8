"""One engine per process, and transactions."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar, cast

import psycopg2
from psycopg2.extensions import STATUS_READY
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine.interfaces import DBAPIConnection, ExceptionContext
from sqlalchemy.exc import DBAPIError, DisconnectionError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import Session
from sqlalchemy.pool import ConnectionPoolEntry, PoolProxiedConnection
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random

from pipeline_core.database import log_lines, wakeups
from pipeline_core.database.prepared import Prepared, prepare_marked
from pipeline_core.database.urls import connection_parameters
from pipeline_core.errors import ConfigurationError, Contended, Unavailable
from pipeline_core.runtime import part
from pipeline_core.settings import settings

SESSION_SETTINGS: Mapping[str, str] = {
    "timezone": "UTC",
    "statement_timeout": "30000",
    "lock_timeout": "15000",
    "idle_in_transaction_session_timeout": "60000",
    "jit": "off",
}
"""Settings of each session. A pooler that takes none from its clients gives its sessions those of their role (`migrate`)."""

PING_AFTER_SECONDS = 1.0

_USED_AT = "used_at"

to_json = partial(json.dumps, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
"""Serializes documents: compact, with the keys in their original order."""


@part(close=Engine.dispose)
def engine() -> Engine:
    """This process's engine. Raises ConfigurationError when no database is configured."""
    if not settings().database_url:
        raise ConfigurationError("PIPELINE_DATABASE_URL is not set; `pipeline up` brings a database of its own")
    return make_engine(settings().database_url)


def make_engine(url: str, **options: Any) -> Engine:
    """An engine with the service's connection settings. Raises ConfigurationError when `url` is none."""
    engine = create_engine(
        # SQLAlchemy's own form of a URL has no room for several hosts with ports.
        "postgresql+psycopg2://",
        json_serializer=to_json,
        # Else the text of an error, which goes into the log, has the documents and secrets of the statement.
        hide_parameters=True,
        connect_args={
            **connection_parameters(url),
            "connect_timeout": 3,
            "options": " ".join(f"-c {name}={value}" for name, value in SESSION_SETTINGS.items()),
            "application_name": "pipeline",
            "keepalives_idle": 30,
            "keepalives_interval": 10,
            "keepalives_count": 3,
            # Of a machine that has vanished with a statement, keepalives find nothing: the statement is sent again and again.
            "tcp_user_timeout": 20_000,
        },
        **{
            # Few, and none is closed before its time: to open one costs more than a transaction.
            "pool_size": settings().database_connections,
            "max_overflow": 0,
            "pool_use_lifo": True,
            "pool_timeout": 5,
            "pool_recycle": 1800,
            **options,
        },
    )
    _ping_when_idle(engine)
    _hide_values(engine)
    _leave_when_read_only(engine)
    prepare_marked(engine)
    return engine


def _hide_values(engine: Engine) -> None:
    """Of PostgreSQL's errors keep the first line: the others quote the statement, whose values are in it, and rows."""

    @event.listens_for(engine, "handle_error")
    def shorten(context: ExceptionContext) -> None:
        original, error = context.original_exception, context.sqlalchemy_exception
        if error is not None:
            _keep_first_line(original)
            error.args = (f"({type(original).__module__}.{type(original).__name__}) {original.args[0]}",)


def _keep_first_line(error: BaseException) -> None:
    error.args = (str(error).partition("\n")[0], *error.args[1:])


def _leave_when_read_only(engine: Engine) -> None:
    """Take a server that has become read-only for one that is away: another is the primary now, or will be soon."""

    @event.listens_for(engine, "handle_error")
    def leave(context: ExceptionContext) -> None:
        if getattr(context.original_exception, "pgcode", None) == _READ_ONLY:
            context.is_disconnect = True


def _ping_when_idle(engine: Engine) -> None:
    """Ping a connection that was idle for PING_AFTER_SECONDS when it is checked out, and replace it if it is broken.

    A connection that has just been used is not pinged: that would cost a round trip per transaction. If its server has
    gone in that time, the transaction raises Unavailable.
    """

    @event.listens_for(engine, "checkin")
    def note(connection: Any, record: ConnectionPoolEntry) -> None:
        record.info[_USED_AT] = time.monotonic()

    @event.listens_for(engine, "checkout")
    def ping(connection: DBAPIConnection, record: ConnectionPoolEntry, proxy: PoolProxiedConnection) -> None:
        if time.monotonic() < record.info.get(_USED_AT, math.inf) + PING_AFTER_SECONDS:
            return
        try:
            engine.dialect.do_ping(connection)
        except engine.dialect.loaded_dbapi.Error as error:
            raise DisconnectionError from error


@contextmanager
def transaction() -> Iterator[Session]:
    """A session in a transaction: committed at the end of the block, rolled back when it raises.

    What was noted with `wakeups.after_commit` and `log_lines.note` is published once the commit has succeeded. Raises
    Unavailable when the database is unavailable, and Contended after a deadlock or serialization failure; nothing of the
    block is kept then.
    """
    with _own_errors(), Session(engine(), expire_on_commit=False) as session, session.begin():
        yield session
    log_lines.write_noted(session)
    wakeups.publish_noted(session)


@contextmanager
def connected() -> Iterator[Connection]:
    """A connection without a session, on which each statement is a transaction of its own: for what every request executes.

    Raises what `transaction` raises.
    """
    with _own_errors(), engine().connect() as connection, own_transaction(connection):
        yield connection


@contextmanager
def own_transaction(connection: Connection) -> Iterator[None]:
    """Let each statement of the block be a transaction of its own, if nothing was executed on this connection before; otherwise
    they belong to the transaction that has begun."""
    # psycopg2's own switch, which saves the round trips of BEGIN and COMMIT and costs none. SQLAlchemy's would be reset when
    # the connection returns to the pool, and if the server has gone meanwhile, the pool loses a slot.
    driver: Any = connection.connection.dbapi_connection
    if driver.status != STATUS_READY:
        yield
        return
    driver.autocommit = True
    try:
        yield
    finally:
        if not driver.closed:
            driver.autocommit = False


def execute_alone(statement: Prepared, parameters: Mapping[str, Any]) -> list[Any]:
    """Execute a statement that is a transaction by itself, by the driver: its rows, as named tuples.

    For what every request and every stage executes: a session, SQLAlchemy's connection and its results take longer than the
    driver does. Raises what `transaction` raises.
    """
    with _own_errors():
        pooled = _from_pool()
        try:
            driver: Any = pooled.dbapi_connection
            driver.autocommit = True
            try:
                return statement.execute_by_driver(driver, pooled.info, parameters)
            except psycopg2.Error as error:
                raise _as_sqlalchemy(error, pooled) from error
            finally:
                if not driver.closed:
                    driver.autocommit = False
        finally:
            pooled.close()


def _from_pool() -> PoolProxiedConnection:
    try:
        return engine().raw_connection()
    except psycopg2.Error as error:
        raise _as_sqlalchemy(error, None) from error


def _as_sqlalchemy(error: psycopg2.Error, pooled: PoolProxiedConnection | None) -> BaseException:
    """The error as SQLAlchemy raises it for its own connections; if the server has gone, connections as old are given up."""
    dialect = engine().dialect
    _keep_first_line(error)
    connection: Any = pooled and pooled.dbapi_connection
    lost = error.pgcode == _READ_ONLY or dialect.is_disconnect(cast(Any, error), connection, None)
    if lost and pooled is not None:
        engine().pool._invalidate(pooled, error)
    return DBAPIError.instance(
        None, None, error, psycopg2.Error, hide_parameters=True, connection_invalidated=lost, dialect=dialect
    )


@contextmanager
def _own_errors() -> Iterator[None]:
    try:
        yield
    except PoolTimeout as error:
        raise Unavailable("All connections to the database are in use; try again later.") from error
    except DBAPIError as error:
        if _code(error) == _LOCK_TIMEOUT:
            raise Unavailable("Others have held for too long what this has to change; try again later.") from error
        if is_unavailable(error):
            raise Unavailable("The database is away; try again later.") from error
        if is_contention(error):
            raise Contended(retry_after=1) from error
        raise


def is_unavailable(error: DBAPIError) -> bool:
    """Whether the database could not be reached or did not answer in time; not whether it rejected a statement."""
    if error.connection_invalidated:
        return True
    code = _code(error)
    # 57: it is shutting down, starting up, or has ended this connection or statement.
    kinds = ("57", "08", "53")
    return isinstance(error, OperationalError | InterfaceError) and (not code or code.startswith(kinds))


def is_contention(error: DBAPIError) -> bool:
    """Whether PostgreSQL aborted the transaction because of concurrent ones: a deadlock or a serialization failure."""
    return _code(error) in ("40P01", "40001")


_LOCK_TIMEOUT = "55P03"
_READ_ONLY = "25006"


def _code(error: DBAPIError) -> str:
    return getattr(error.orig, "pgcode", None) or ""


P = ParamSpec("P")
T = TypeVar("T")

_again = retry(
    retry=retry_if_exception_type(Contended), stop=stop_after_attempt(3), wait=wait_random(0.0, 0.1), reraise=True
)


def again_if_contended(function: Callable[P, T]) -> Callable[P, T]:
    """Decorator that retries a function after Contended. Only for functions that are one transaction and nothing else."""
    again = _again(function)

    @wraps(function)
    def attempted(*args: P.args, **kwargs: P.kwargs) -> T:
        # tenacity takes half as long as a statement, and there is seldom anything to retry.
        try:
            return function(*args, **kwargs)
        except Contended:
            return again(*args, **kwargs)

    return attempted
