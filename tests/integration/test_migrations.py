"""The migrations make what the models say."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import text

from pipeline_core.database import migrate, revisions
from pipeline_core.database.engine import make_engine
from pipeline_core.database.models import Base


def test_models_and_migrations_agree(database_url: str) -> None:
    engine = make_engine(database_url)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []
        assert revisions.current(connection) == revisions.head()
    engine.dispose()


def test_the_revisions_that_are_known_are_those_of_the_migrations() -> None:
    scripts = ScriptDirectory(str(migrate.MIGRATIONS)).walk_revisions()
    assert [script.revision for script in scripts] == [*reversed(revisions.REVISIONS)]


def test_two_upgrades_at_once_take_turns(empty_database_url: str) -> None:
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(migrate.upgrade, [empty_database_url] * 2))
    engine = make_engine(empty_database_url)
    with engine.connect() as connection:
        assert revisions.current(connection) == revisions.head()
    engine.dispose()


def test_a_later_version_s_schema_is_known_as_such(empty_database_url: str) -> None:
    migrate.upgrade(empty_database_url)
    assert not revisions.is_newer(migrate.revision_of(empty_database_url))
    engine = make_engine(empty_database_url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = 'v9999'"))
    engine.dispose()
    assert revisions.is_newer(migrate.revision_of(empty_database_url))
    assert not revisions.is_newer(None)
