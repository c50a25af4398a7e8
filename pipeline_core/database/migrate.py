"""Migrate a database's schema to the revision that this code expects."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, text

from pipeline_core.database.engine import SESSION_SETTINGS, make_engine
from pipeline_core.database.locks import Lock, lock
from pipeline_core.database.revisions import current

MIGRATIONS = Path(__file__).parent / "migrations"


def _config(connection: Connection | None = None, later: Path | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    if later:
        config.set_main_option("path_separator", "newline")
        config.set_main_option("version_locations", f"{MIGRATIONS / 'versions'}\n{later}".replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def revision_of(url: str) -> str | None:
    """The revision that the database at `url` is at; None for an empty one."""
    engine = make_engine(url, pool_size=1)
    try:
        with engine.connect() as connection:
            return current(connection)
    finally:
        engine.dispose()


def upgrade(url: str, revision: str = "head", *, later: Path | None = None) -> None:
    """Run the migrations that the database at `url` lacks, if any, all in one transaction.

    `later` is a folder with additional migrations, to try one before it is part of a release.
    """
    engine = make_engine(url, pool_size=1)
    try:
        with engine.begin() as connection:
            connection.execute(text("SET LOCAL statement_timeout = 0"))
            lock(connection, Lock.MIGRATIONS)
            command.upgrade(_config(connection, later), revision)
            _set_defaults(connection)
    finally:
        engine.dispose()


def _set_defaults(connection: Connection) -> None:
    """Give new sessions of this role in this database the service's settings, also where a pooler opens them."""
    quote = connection.dialect.identifier_preparer.quote
    database = quote(connection.execute(text("SELECT current_database()")).scalar_one())
    for name, value in SESSION_SETTINGS.items():
        connection.execute(text(f"ALTER ROLE CURRENT_USER IN DATABASE {database} SET {name} TO '{value}'"))


def make_revision(url: str, message: str) -> None:
    """Generate a migration from the difference between the models and the database at `url`; for developers."""
    engine = make_engine(url, pool_size=1)
    with engine.begin() as connection:
        command.revision(_config(connection), message, autogenerate=True)
    engine.dispose()
