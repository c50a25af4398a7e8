"""What all tables have in common."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, cast

from sqlalchemy import JSON, BigInteger, DateTime, MetaData, String, Table, Text
from sqlalchemy.orm import DeclarativeBase, mapped_column

Id = Annotated[str, mapped_column(String(32, collation="C"))]
"""A prefix and a lower-case ULID: sorts by time of creation, byte by byte whatever the database's locale."""

Serial = Annotated[int, mapped_column(BigInteger, primary_key=True)]
Timestamp = Annotated[datetime, mapped_column(DateTime(timezone=True))]
Document = Annotated[Any, mapped_column(JSON(none_as_null=True))]
"""PostgreSQL's `json`, not `jsonb`: it preserves the order of keys, and accepts any text."""


class Base(DeclarativeBase):
    """The root of all models."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {str: Text}


def table(model: type[Base]) -> Table:
    """A model's table, for statements that need no objects: with a single attribute of a model the ORM would process the
    statement, which takes twice as long."""
    return cast("Table", model.__table__)
