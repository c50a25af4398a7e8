"""Which of PostgreSQL's programs makes a backup."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline_core.database.backups import choose, major
from pipeline_core.errors import ConfigurationError

OLD, SAME, NEW = Path("/old/pg_dump"), Path("/same/pg_dump"), Path("/new/pg_dump")


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("pg_dump (PostgreSQL) 18.6", 18),
        ("pg_restore (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)", 15),
        ("pg_dump (PostgreSQL) 19beta1", 19),
        ("something else 7", 0),
    ],
)
def test_a_program_says_its_version(text: str, version: int) -> None:
    assert major(text) == version


def test_the_oldest_that_is_not_older_than_the_server_is_chosen() -> None:
    assert choose("pg_dump", {OLD: 15, NEW: 18, SAME: 17}, 17) == SAME
    assert choose("pg_dump", {OLD: 15, NEW: 18}, 17) == NEW


@pytest.mark.parametrize(("found", "there"), [({OLD: 15}, "/old/pg_dump of 15"), ({}, "found: none")])
def test_where_none_fits_the_error_says_what_is_there_and_what_to_install(found: dict[Path, int], there: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        choose("pg_dump", found, 18)
    assert there in raised.value.message
    assert "postgresql-client-18" in raised.value.message
