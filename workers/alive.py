"""A file whose age tells a probe that this process goes on, whether the database and Redis are there or not."""

from __future__ import annotations

from pathlib import Path

from pipeline_core.settings import settings


def show() -> None:
    """Touch the file of `PIPELINE_ALIVE_FILE`, if there is to be one."""
    if settings().alive_file:
        Path(settings().alive_file).touch()
