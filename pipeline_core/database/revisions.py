"""Which revision a database's schema is at, and which this code expects. Read without Alembic: only migrations need it."""

from __future__ import annotations

from sqlalchemy import Connection, text

REVISIONS = ("0001",)
"""The revision of each migration, in their order."""


def head() -> str:
    """The revision that this code expects."""
    return REVISIONS[-1]


def current(connection: Connection) -> str | None:
    """The revision that the database is at; None for an empty one."""
    if connection.execute(text("SELECT to_regclass('alembic_version')")).scalar_one() is None:
        return None
    revision: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()
    return revision


def is_newer(revision: str | None) -> bool:
    """Whether a later version of the service has upgraded the database: this one does not know the revision.

    Migrations are compatible with the version before them, whose processes run until they are replaced.
    """
    return revision is not None and revision not in REVISIONS
