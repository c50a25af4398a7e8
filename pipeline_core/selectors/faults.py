"""Everything that is wrong with a selector, gathered so that the user is told of all of it at once."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline_core.errors import WrongParameter


class Faults:
    """Texts by the path of the field that they are about."""

    def __init__(self) -> None:
        self._found: dict[str, list[str]] = {}

    def add(self, path: str, text: str) -> None:
        self._found.setdefault(path, []).append(text)

    def raise_any(self) -> None:
        """Raises WrongParameter with all faults in `errors` and the first in its message."""
        if not self._found:
            return
        path, texts = next(iter(self._found.items()))
        more = sum(map(len, self._found.values())) - 1
        message = f"{path}: {texts[0]}" + (f" (and {more} more)" if more else "")
        raise WrongParameter(message, errors=self._found)


_KINDS: tuple[tuple[type, str], ...] = (
    (type(None), "null"),
    (bool, "a boolean"),
    (int, "a number"),
    (float, "a number"),
    (str, "a text"),
    (list, "a list"),
    (Mapping, "an object"),
)


def kind(value: object) -> str:
    """What JSON calls a value of this type."""
    return next((word for type_, word in _KINDS if isinstance(value, type_)), type(value).__name__)


def cut(text: str, longest: int = 80) -> str:
    """The text, short enough to be quoted in a message."""
    return text if len(text) <= longest else f"{text[:longest]}…"
