"""Counting rows without counting all of them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

EXACT_UP_TO = 10_000
"""A list's total is exact up to this number of rows."""


def count_up_to(session: Session, query: Select[Any], limit: int = EXACT_UP_TO) -> int:
    """How many rows `query` returns; `limit` + 1 when there are more than `limit`."""
    rows = query.order_by(None).limit(limit + 1).subquery()
    return session.execute(select(func.count()).select_from(rows)).scalar_one()
