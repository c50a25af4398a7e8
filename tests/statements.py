"""The statements that this process has PostgreSQL execute."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import event

from pipeline_core.database.engine import engine
from pipeline_core.database.prepared import Prepared


@contextmanager
def counted_statements() -> Iterator[list[str]]:
    """The statements that are executed meanwhile, by SQLAlchemy or by the driver."""
    found: list[str] = []
    execute = Prepared.execute_by_driver

    def note(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        found.append(statement)

    def noted(statement: Prepared, *arguments: Any) -> list[Any]:
        found.append(statement.text)
        return execute(statement, *arguments)

    event.listen(engine(), "before_cursor_execute", note)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Prepared, "execute_by_driver", noted)
            yield found
    finally:
        event.remove(engine(), "before_cursor_execute", note)
