"""Rows of several tables that one statement inserts: a round trip for each of them would cost more than the rows do."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from sqlalchemy import Insert, bindparam
from sqlalchemy.dialects.postgresql import insert

from pipeline_core.database.models.base import Base, table


def inserting(model: type[Base]) -> Insert:
    """Insert one row, whose values are parameters by names of their own (`parameters`)."""
    columns = table(model).columns
    return insert(table(model)).values(
        {name: bindparam(parameter, type_=columns[name].type) for name, (parameter, _) in _columns(model).items()}
    )


def parameters(model: type[Base], values: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of `inserting`, from values by column; the others have the model's default, or are null."""
    return {parameter: values.get(name, default) for name, (parameter, default) in _columns(model).items()}


@cache
def _columns(model: type[Base]) -> dict[str, tuple[str, Any]]:
    """By column, all but a serial one: the parameter's name and the value where none is given."""
    rows = table(model)
    return {
        column.name: (f"{rows.name}_{column.name}", getattr(column.default, "arg", None))
        for column in rows.columns
        if column is not rows.autoincrement_column
    }
