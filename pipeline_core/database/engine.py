"""One engine per process, and the transactions that all work is done in."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DBAPIError, DisconnectionError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import Session
from sqlalchemy.pool import ConnectionPoolEntry, PoolProxiedConnection
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random

from pipeline_core.database import wakeups
from pipeline_core.errors import ConfigurationError, Contended, Unavailable
from pipeline_core.runtime import part
from pipeline_core.settings import settings

SESSION_OPTIONS = " ".join(
    f"-c {option}"
    for option in (
        "timezone=UTC",
        "statement_timeout=30000",
        "lock_timeout=15000",
        "idle_in_transaction_session_timeout=60000",
        "jit=off",
    )
)

PING_AFTER_SECONDS = 1.0

_USED_AT = "used_at"

to_json = partial(json.dumps, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
"""How documents are written: compact, and with the keys in the order that they came in."""


@part(close=Engine.dispose)
def engine() -> Engine:
    """This process's engine. Raises ConfigurationError when no database is configured."""
    if not settings().database_url:
        raise ConfigurationError("PIPELINE_DATABASE_URL is not set; `pipeline up` brings a database of its own")
    return make_engine(settings().database_url)


def make_engine(url: str, **options: Any) -> Engine:
    """An engine with the connection settings that every part of the service uses."""
    engine = create_engine(
        # A plain `postgresql://` would mean another driver to SQLAlchemy.
        make_url(url).set(drivername="postgresql+psycopg2"),
        json_serializer=to_json,
        connect_args={
            "connect_timeout": 3,
            "options": SESSION_OPTIONS,
            "application_name": "pipeline",
            "keepalives_idle": 30,
            "keepalives_interval": 10,
            "keepalives_count": 3,
        },
        **{
            "pool_size": 8,
            "max_overflow": 8,
            "pool_timeout": 5,
            "pool_recycle": 1800,
            **options,
        },
    )
    _ping_when_idle(engine)
    return engine


def _ping_when_idle(engine: Engine) -> None:
    """Ask a connection that was idle for a while whether it is alive, and take another if not.

    One that has just been used is not asked each time: it would cost a round trip for every transaction. Should its
    server have gone this very moment, the transaction raises Unavailable.
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

    The wake-ups noted with `wakeups.after_commit` are published once the commit has succeeded. Raises Unavailable when the
    database is away, and Contended when it chose this transaction to give way; nothing of the block is kept then.
    """
    with _own_errors(), Session(engine(), expire_on_commit=False) as session, session.begin():
        yield session
    wakeups.publish_noted(session)


@contextmanager
def connected() -> Iterator[Connection]:
    """A connection in a transaction, without a session: for statements that are on every request's way.

    Raises what `transaction` raises.
    """
    # Not in autocommit, which would save two round trips: SQLAlchemy sets it back as the connection returns to the pool, and
    # loses the connection's place there when its server has gone meanwhile.
    with _own_errors(), engine().begin() as connection:
        yield connection


@contextmanager
def _own_errors() -> Iterator[None]:
    try:
        yield
    except PoolTimeout as error:
        raise Unavailable("All connections to the database are in use; try again later.") from error
    except DBAPIError as error:
        if _code(error) == _LOCK_TIMEOUT:
            raise Unavailable("Others have held for too long what this has to change; try again later.") from error
        if is_away(error):
            raise Unavailable("The database is away; try again later.") from error
        if gave_way(error):
            raise Contended("Others were at work on the same; try again.", retry_after=1) from error
        raise


def is_away(error: DBAPIError) -> bool:
    """Whether the database could not be reached or did not answer in time, as against a statement that it refused."""
    if error.connection_invalidated:
        return True
    code = _code(error)
    # 57: it is shutting down, starting up, or has ended this connection or statement.
    kinds = ("57", "08", "53")
    return isinstance(error, OperationalError | InterfaceError) and (not code or code.startswith(kinds))


def gave_way(error: DBAPIError) -> bool:
    """Whether PostgreSQL ended the transaction for others' sake: a deadlock, or no serial order."""
    return _code(error) in ("40P01", "40001")


_LOCK_TIMEOUT = "55P03"


def _code(error: DBAPIError) -> str:
    return getattr(error.orig, "pgcode", None) or ""


again_if_contended = retry(
    retry=retry_if_exception_type(Contended), stop=stop_after_attempt(4), wait=wait_random(0.0, 0.1), reraise=True
)
"""For functions that are one transaction and nothing else: they run again when they gave way to others."""
