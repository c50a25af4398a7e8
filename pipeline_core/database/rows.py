"""Insert rows into several tables by one statement, which saves a round trip per table."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from sqlalchemy import Insert, bindparam
from sqlalchemy.dialects.postgresql import insert

from pipeline_core.database.models.base import Base, table


def inserting(model: type[Base]) -> Insert:
    """An INSERT of one row, whose bound parameters have names that are unique to the table (see `parameters`)."""
    columns = table(model).columns
    return insert(table(model)).values(
        {name: bindparam(parameter, type_=columns[name].type) for name, (parameter, _) in _columns(model).items()}
    )


def parameters(model: type[Base], values: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of `inserting`, from values by column; other columns have the model's default, or are null."""
    return {parameter: values.get(name, default) for name, (parameter, default) in _columns(model).items()}


@cache
def _columns(model: type[Base]) -> dict[str, tuple[str, Any]]:
    """Each column except a serial one, with its parameter's name and default value."""
    rows = table(model)
    return {
        column.name: (f"{rows.name}_{column.name}", getattr(column.default, "arg", None))
        for column in rows.columns
        if column is not rows.autoincrement_column
    }
