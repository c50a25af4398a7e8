"""Fields of JSON objects: the rules that request bodies and import documents share, and the reader of the latter.

Request bodies are read by the schemas of the API.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pipeline_core.errors import MissingParameter, PipelineError, WrongParameter
from pipeline_core.validation.errors import Path, ValidationErrors, join_path
from pipeline_core.validation.texts import UNSTORABLE, shown, storable

ECHOED = frozenset({"key", "sequence", "effectiveJobSelector", "createdAt", "updatedAt"})
"""Fields that older clients send, or send back from an answer; they are ignored wherever nothing reads them."""

EMPTY: tuple[object, ...] = (None, "", [], {})
"""What counts as not given where something is required."""

REQUIRED = "is required and may not be empty"

Check = Callable[[str], str | None]
"""What is wrong with a text ("must be …"), or None."""


def unknown_fields(given: Iterable[str], known: Iterable[str]) -> dict[str, str]:
    """What is wrong with each field that there is not, by its name."""
    names = sorted(known)
    text = f"is no field here; there are {', '.join(names)}"
    unknown = (name for name in given if name not in names and name not in ECHOED)
    return {name: text if storable(name) else UNSTORABLE for name in unknown}


class FieldReader:
    """Reads a JSON object of an import document field by field.

    Each method reads one field and gives a value of the promised type, a harmless one when something is wrong with it.
    Call `finish` before any of the values is used: it raises what was found, fields that nobody read among it.

    A required field lacks (MissingParameter) when it is not there, null, or an empty text, list or object. An optional
    field that is null counts as left out.
    """

    def __init__(self, fields: Mapping[str, Any], errors: ValidationErrors, prefix: str = "") -> None:
        self.errors = errors
        self._fields = fields
        self._prefix = prefix
        self._known: set[str] = set()

    def path(self, *parts: str | int) -> str:
        """Where a field, or what lies below it, stands, counted from the whole document."""
        return join_path(self._prefix, *parts)

    def add_error(self, name: str | Path, text: str, error: type[PipelineError] = WrongParameter) -> None:
        """Note what is wrong with a field, or with what a path below it leads to."""
        self.errors.add(self.path(*([name] if isinstance(name, str) else name)), text, error)

    def text(self, name: str, *, required: bool = False, default: str = "", check: Check | None = None) -> str:
        """A text; `check` is asked about one that is not empty."""
        value = self.value(name, required=required)
        if value is None:
            return default
        if not isinstance(value, str):
            self.add_error(name, f"must be a text, not {shown(value)}")
            return default
        if value and check and (error := check(value)):
            self.add_error(name, f"{error}; given {shown(value)}")
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        """An optional boolean."""
        value = self.value(name)
        if value is None or isinstance(value, bool):
            return default if value is None else value
        self.add_error(name, f"must be true or false, not {shown(value)}")
        return default

    def value(self, name: str, *, required: bool = False) -> Any:
        """Whatever stands there; None when nothing does."""
        self._known.add(name)
        value = self._fields.get(name)
        if required and value in EMPTY:
            self.add_error(name, REQUIRED, MissingParameter)
            return None
        return value

    def ignore(self, *names: str) -> None:
        """Let these fields pass: they are sent back from an answer and mean nothing here."""
        self._known.update(names)

    def finish(self) -> None:
        """Raises MissingParameter or WrongParameter, by what was found first, when anything is wrong."""
        for name, text in unknown_fields(self._fields, self._known).items():
            self.add_error(name, text)
        self.errors.raise_any()
