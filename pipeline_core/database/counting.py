"""Counting rows without counting all of them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

COUNTED = 10_000
"""Beyond this many, a list's total is not exact."""


def count_up_to(session: Session, query: Select[Any], most: int = COUNTED) -> int:
    """How many rows `query` gives; `most` + 1 when there are more than `most`."""
    rows = query.order_by(None).limit(most + 1).subquery()
    return session.execute(select(func.count()).select_from(rows)).scalar_one()
