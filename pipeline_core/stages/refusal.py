"""From what the service finds wrong with a plugin's TaskSet to a bad answer of that plugin."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pipeline_core.errors import WrongParameter
from pipeline_core.plugins.failures import BadAnswer

_COUNTED = re.compile(r" \(and \d+ more\)$")
SHOWN = 3
"""Faults that a reason names; the first ones are enough to begin with."""


@contextmanager
def as_bad_answer() -> Iterator[None]:
    """Whatever is wrong with the document is wrong with the answer. Raises BadAnswer in place of WrongParameter."""
    try:
        yield
    except WrongParameter as error:
        raise BadAnswer(described(error)) from error


def described(error: WrongParameter) -> str:
    """The error as one sentence, with the faults that its message counts but does not tell."""
    faults = [f"{path} {texts[0]}" for path, texts in error.errors.items() if texts[0] not in error.message]
    untold = len(faults) - SHOWN
    more = [f"and {untold} more"] if untold > 0 else []
    return "; ".join([_COUNTED.sub("", error.message), *faults[:SHOWN], *more])
