"""What is wrong with a document: where, and in words."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from pipeline_core.validation.errors import Path, ValidationErrors, path_text

MAX_ERRORS = 20
"""How many problems one check reports at most."""

Problem = tuple[Path, str]
"""A path, and a sentence of which it is the subject."""


def told(problems: Iterable[Problem]) -> tuple[str, dict[str, list[str]]] | None:
    """The first problem as a sentence, and all, at most MAX_ERRORS, by their paths; None when there are none."""
    errors = ValidationErrors()
    for path, sentence in islice(problems, MAX_ERRORS):
        errors.add(path_text(path), sentence)
    return (errors.sentence(separator=" "), errors.by_path) if errors else None
