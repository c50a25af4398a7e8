"""Errors of the readers of notation."""

from __future__ import annotations

from collections.abc import Callable

from pipeline_core.errors import PipelineError
from pipeline_core.validation.errors import ValidationErrors


class NotationError(ValueError):
    """What is wrong with one value, as the end of a sentence that begins with its path ("must be …")."""


def collect_errors(act: Callable[[], None], problems: ValidationErrors) -> None:
    """Call `act`; add the errors that it raises to `problems`, so that the next value is checked too."""
    try:
        act()
    except PipelineError as error:
        problems.adopt(error)
