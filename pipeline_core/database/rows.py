"""Insert rows into several tables by one statement, and pass many rows to one: either saves round trips, and statements that are
built once save building and planning them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import CTE, JSON, Column, ColumnElement, Insert, Text, bindparam, cast, func, literal_column, select
from sqlalchemy.dialects.postgresql import ARRAY, insert
from sqlalchemy.sql.schema import ScalarElementColumnDefault
from sqlalchemy.sql.selectable import TableValuedAlias

from pipeline_core.database.engine import to_json
from pipeline_core.database.models.base import Base, table


def inserting(model: type[Base], given: Collection[str], when: CTE) -> Insert:
    """An INSERT of one row, if `when` has one; of none, if that has none.

    The columns in `given` are bound parameters, whose names are unique to the table (see `parameters`); others have the default
    of the model, or are null.
    """
    columns = table(model).columns
    values: dict[str, ColumnElement[Any]] = {
        column.name: literal_column(_literal(column.default.arg))
        for column in columns
        if isinstance(column.default, ScalarElementColumnDefault) and column.name not in given
    }
    values |= {name: bindparam(_parameter(model, name), type_=columns[name].type) for name in given}
    return insert(table(model)).from_select(list(values), select(*values.values()).select_from(when))


def parameters(model: type[Base], values: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of `inserting` as the driver takes them, from the values of the given columns."""
    documents = _documents(model)
    return {_parameter(model, name): _document(value) if name in documents else value for name, value in values.items()}


@cache
def _documents(model: type[Base]) -> frozenset[str]:
    return frozenset(column.name for column in table(model).columns if _is_document(column))


@cache
def _parameter(model: type[Base], column: str) -> str:
    return f"{table(model).name}_{column}"


def _literal(value: Any) -> str:
    """A default as SQL. Raises TypeError for one that is neither a text nor a whole number."""
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, str):
        return "'{}'".format(value.replace("'", "''"))
    raise TypeError(f"a default of a column must be a text or a whole number, not {value!r}")


class Passed:
    """Rows with these columns that are passed to a statement, whatever their number: an array for each column.

    `rows` is what the statement selects from, under `name`; use `column` to read a column of it.
    """

    def __init__(self, name: str, columns: Iterable[Column[Any]]) -> None:
        self._columns = {column.name: column for column in columns}
        self._parameters = {column: f"{name}_{column}" for column in self._columns}
        sent = {column: _sent(self._columns[column]) for column in self._columns}
        arrays = [
            cast(bindparam(self._parameters[column], type_=ARRAY(type)), ARRAY(type)) for column, type in sent.items()
        ]
        found = func.unnest(*arrays).table_valued(*(Column(column, type) for column, type in sent.items()), name=name)
        self.rows: TableValuedAlias = found.render_derived()

    def column(self, name: str) -> ColumnElement[Any]:
        """A column, with the type that it has in its table."""
        column: ColumnElement[Any] = self.rows.c[name]
        return cast(column, JSON) if _is_document(self._columns[name]) else column

    def parameters(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The parameters for these rows; a column that a row lacks is null."""
        return {
            parameter: [
                _document(row.get(name)) if _is_document(self._columns[name]) else row.get(name) for row in rows
            ]
            for name, parameter in self._parameters.items()
        }


def _is_document(column: Column[Any]) -> bool:
    return isinstance(column.type, JSON)


def _sent(column: Column[Any]) -> Any:
    # Documents are sent as texts: within JSON, PostgreSQL would refuse some that it stores.
    return Text() if _is_document(column) or column.type.python_type is str else column.type


def _document(value: Any) -> str | None:
    return None if value is None else to_json(value)
