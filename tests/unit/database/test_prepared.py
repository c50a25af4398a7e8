"""Prepared statements: their texts."""

from __future__ import annotations

from sqlalchemy import bindparam, column, select, table

from pipeline_core.database.prepared import Prepared, texts

JOBS = table("jobs", column("id"), column("name"))


def test_a_parameter_that_stands_twice_is_passed_once() -> None:
    preparing, executing = texts("SELECT %(a)s, %(b)s::text, 100 %% %(a)s")
    name = executing.split()[1]
    assert preparing == f"PREPARE {name} AS SELECT $1, $2::text, 100 %% $1"
    assert executing == f"EXECUTE {name} (%(a)s, %(b)s)"


def test_a_statement_without_parameters_is_executed_without_parentheses() -> None:
    preparing, executing = texts("SELECT 1")
    assert preparing == f"PREPARE {executing.removeprefix('EXECUTE ')} AS SELECT 1"


def test_another_text_has_another_name_of_at_most_63_characters() -> None:
    (_, one), (_, other) = (texts(f"SELECT {number}") for number in (1, 2))
    assert one != other
    assert len(one.removeprefix("EXECUTE ")) < 64


def test_a_built_statement_is_compiled_for_the_driver() -> None:
    statement = Prepared(select(JOBS.c.id).where(JOBS.c.name == bindparam("of_name")))
    assert " ".join(statement.text.split()) == "SELECT jobs.id FROM jobs WHERE jobs.name = %(of_name)s"
