"""Real servers for tests: one PostgreSQL and one Redis for the whole run, each in a directory of its own."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import psycopg2
import psycopg2.errors
import pytest
from psycopg2 import sql
from sqlalchemy import Connection, text
from sqlalchemy.engine import make_url
from sqlalchemy.orm import Session

from pipeline_up.embedded import EmbeddedPostgres, EmbeddedRedis
from tests.waiting import wait_for


@pytest.fixture(scope="session")
def postgres_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a PostgreSQL server; its role may create databases."""
    with EmbeddedPostgres(tmp_path_factory.mktemp("postgres") / "server", durable=False) as server:
        yield server.url


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a Redis server. All tests share it: use a prefix of your own, or FLUSHALL first."""
    with EmbeddedRedis(tmp_path_factory.mktemp("redis") / "server", durable=False) as server:
        yield server.url


@pytest.fixture(scope="session")
def migrated_database(postgres_url: str) -> Iterator[str]:
    """The name of a database with all tables and no rows, to copy others from."""
    from pipeline_core.database.migrate import upgrade

    with fresh_database(postgres_url) as url:
        upgrade(url)
        yield str(make_url(url).database)


@pytest.fixture(scope="module")
def database_url(postgres_url: str, migrated_database: str) -> Iterator[str]:
    """The URL of a database of this test module's own, with all tables and no rows."""
    with fresh_database(postgres_url, template=migrated_database) as url:
        yield url


@pytest.fixture(scope="module")
def empty_database_url(postgres_url: str) -> Iterator[str]:
    """The URL of a database of this test module's own, with no tables."""
    with fresh_database(postgres_url) as url:
        yield url


@contextmanager
def fresh_database(server_url: str, *, template: str = "template1") -> Iterator[str]:
    """The URL of a new copy of `template`, dropped afterwards whoever is still connected to it."""
    name = f"test_{secrets.token_hex(6)}"
    _statement(server_url, "CREATE DATABASE {} TEMPLATE {}", name, template)
    try:
        yield make_url(server_url).set(database=name).render_as_string(hide_password=False)
    finally:
        _drop(server_url, name)


def delete_rows(database: Connection | Session, *tables: str) -> None:
    """Delete all rows of these tables, and those that belong to them. TRUNCATE takes far longer: it makes new files."""
    database.execute(text(";".join(f"DELETE FROM {table}" for table in tables)))


def _drop(server_url: str, name: str) -> None:
    def dropped() -> bool:
        # The server's own autovacuum may be in it, which only a superuser may send away; it leaves by itself.
        with suppress(psycopg2.errors.InsufficientPrivilege):
            _statement(server_url, "DROP DATABASE {} WITH (FORCE)", name)
            return True
        return False

    wait_for(dropped, f"{name} to be left by autovacuum")


def _statement(url: str, text: str, *names: str) -> None:
    with closing(psycopg2.connect(url)) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(sql.SQL(text).format(*map(sql.Identifier, names)))


def own_process_ids(directory: Path) -> list[int]:
    """The processes that have this directory in their command line."""
    from pipeline_up import os_processes

    return [
        process.pid
        for process in os_processes.all_processes()
        if any(str(directory) in word for word in os_processes.command_line(process.pid))
    ]
