"""A process of the service in the test's own process: its settings and its database."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from cryptography.fernet import Fernet
from sqlalchemy import text

from pipeline_core.database import engine
from tests.servers import delete_rows

Configure = Callable[..., None]

_KEPT = {"registry", "alembic_version"}


@pytest.fixture
def configure(monkeypatch: pytest.MonkeyPatch, fresh_runtime: Callable[[], None]) -> Configure:
    """Set settings by the names of their fields; None unsets one. They are as before after the test."""

    def configure(**values: object) -> None:
        for name, value in values.items():
            variable = f"PIPELINE_{name.upper()}"
            if value is None:
                monkeypatch.delenv(variable, raising=False)
            else:
                monkeypatch.setenv(variable, str(value))
        fresh_runtime()

    return configure


@pytest.fixture
def database(database_url: str, configure: Configure) -> str:
    """The URL of the database that `transaction()` works on: migrated, and with no rows but the registry's."""
    configure(database_url=database_url, secret_key=Fernet.generate_key().decode(), development=None)
    with engine.engine().begin() as connection:
        tables = connection.execute(text("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")).scalars()
        delete_rows(connection, *sorted(set(tables) - _KEPT))
    return database_url
