"""How the readers of notation say what is wrong with a text."""

from __future__ import annotations

from collections.abc import Callable

from pipeline_core.errors import PipelineError
from pipeline_core.validation.errors import ValidationErrors


class Fault(ValueError):
    """What is wrong with one value, as the end of a sentence that begins with where it stands ("must be …")."""


def noted(act: Callable[[], None], problems: ValidationErrors) -> None:
    """Do something, and note what it raises among the problems instead: so that the next thing is looked at too."""
    try:
        act()
    except PipelineError as error:
        problems.adopt(error)
