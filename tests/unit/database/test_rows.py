"""Rows that are passed to a statement as arrays."""

from __future__ import annotations

from sqlalchemy import literal, select
from sqlalchemy.dialects import postgresql

from pipeline_core.database.models import JobDocument, table
from pipeline_core.database.models.events import Event
from pipeline_core.database.rows import Passed, inserting, parameters

COLUMNS = table(JobDocument).c


def test_each_column_is_an_array_whatever_the_number_of_rows() -> None:
    passed = Passed("changed", (COLUMNS.job_id, COLUMNS.taskset))
    rows = [{"job_id": "j1", "taskset": {"text": "a\0b"}}, {"job_id": "j2"}]
    assert passed.parameters(rows) == {
        "changed_job_id": ["j1", "j2"],
        "changed_taskset": ['{"text":"a\\u0000b"}', None],
    }
    assert passed.parameters([]) == {"changed_job_id": [], "changed_taskset": []}


def test_documents_are_passed_as_texts_and_read_as_documents() -> None:
    passed = Passed("changed", (COLUMNS.job_id, COLUMNS.taskset))
    statement = select(passed.column("job_id"), passed.column("taskset")).select_from(passed.rows)
    compiled = str(statement.compile(dialect=postgresql.dialect()))  # type: ignore[no-untyped-call]
    assert "unnest(CAST(%(changed_job_id)s::TEXT[] AS TEXT[])" in compiled
    assert "AS JSON)" in compiled


def test_a_row_is_inserted_if_the_condition_has_one_and_columns_that_are_not_given_have_their_default() -> None:
    statement = inserting(Event, ("job_id", "sequence", "state"), select(literal(1)).cte("holds"))
    compiled = " ".join(str(statement.compile(dialect=postgresql.dialect())).split())  # type: ignore[no-untyped-call]
    assert "INSERT INTO events (previous_state, reason, actor, job_id, sequence, state) SELECT '', '', ''," in compiled
    assert "%(events_job_id)s" in compiled
    assert " FROM holds" in compiled


def test_parameters_are_named_after_table_and_column_and_documents_are_texts() -> None:
    values = {"job_id": "j1", "header": {"a": 1}, "taskset": None}
    assert parameters(JobDocument, values) == {
        "job_documents_job_id": "j1",
        "job_documents_header": '{"a":1}',
        "job_documents_taskset": None,
    }
