"""Request bodies, read field by field: parsed JSON of any shape goes in, checked values or clear errors come out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from pipeline_core.errors import MissingParameter, PipelineError, WrongParameter
from pipeline_core.validation.errors import Path, ValidationErrors, join_path
from pipeline_core.validation.texts import shown, storable

ECHOED = frozenset({"key", "sequence", "effectiveJobSelector", "createdAt", "updatedAt"})
"""Fields that older clients send, or send back from an answer; they are ignored wherever nothing reads them."""

Item = TypeVar("Item")
Check = Callable[[str], str | None]
"""What is wrong with a text ("must be …"), or None."""


class Body:
    """A JSON object of a request.

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
        self._children: list[Body] = []

    @classmethod
    def of(cls, raw: object) -> Body:
        """The whole body, parsed JSON of any shape. Raises WrongParameter when it is no object."""
        if not isinstance(raw, dict):
            raise WrongParameter(f"The body must be a JSON object, not {shown(raw)}.")
        errors = ValidationErrors()
        for path in unstorable(raw):
            errors.add(path, "must not contain NUL characters or lone surrogates")
        return cls(raw, errors)

    def path(self, *parts: str | int) -> str:
        """Where a field, or what lies below it, stands, counted from the whole body."""
        return join_path(self._prefix, *parts)

    def add_error(self, name: str | Path, text: str, error: type[PipelineError] = WrongParameter) -> None:
        """Note what is wrong with a field, or with what a path below it leads to."""
        self.errors.add(self.path(*([name] if isinstance(name, str) else name)), text, error)

    def text(
        self, name: str, *, required: bool = False, default: str = "", secret: bool = False, check: Check | None = None
    ) -> str:
        """A text; `check` is asked about one that is not empty. The value of a `secret` one is in no message."""
        value = self.value(name, required=required)
        if value is None:
            return default
        if not isinstance(value, str):
            self.add_error(name, "must be a text" + ("" if secret else f", not {shown(value)}"))
            return default
        if value and check and (error := check(value)):
            self.add_error(name, error + ("" if secret else f"; given {shown(value)}"))
        return value

    def texts(self, name: str) -> list[str]:
        """A required list of texts."""
        return [item for _, item in self._items(name, str, "a text")]

    def objects(self, name: str) -> list[Body]:
        """A required list of objects, each to be read in turn; `finish` of this body finishes them too."""
        self._children = [
            Body(item, self.errors, self.path(name, index)) for index, item in self._items(name, dict, "an object")
        ]
        return self._children

    def flag(self, name: str, default: bool = False) -> bool:
        """An optional boolean."""
        value = self.value(name)
        if value is None or isinstance(value, bool):
            return default if value is None else value
        self.add_error(name, f"must be true or false, not {shown(value)}")
        return default

    def integer(self, name: str, default: int, within: range) -> int:
        """An optional whole number."""
        value = self.value(name)
        if value is None:
            return default
        number = int(value) if isinstance(value, float) and value.is_integer() else value
        if isinstance(number, bool) or not isinstance(number, int) or number not in within:
            self.add_error(name, f"must be a whole number from {within[0]} to {within[-1]}, not {shown(value)}")
            return default
        return number

    def value(self, name: str, *, required: bool = False) -> Any:
        """Whatever stands there; None when nothing does."""
        self._known.add(name)
        value = self._fields.get(name)
        if required and value in (None, "", [], {}):
            self.add_error(name, "is required and may not be empty", MissingParameter)
            return None
        return value

    def ignore(self, *names: str) -> None:
        """Let these fields pass: they are sent back from an answer and mean nothing here."""
        self._known.update(names)

    def finish(self) -> None:
        """Raises MissingParameter or WrongParameter, by what was found first, when anything is wrong."""
        self._refuse_unknown()
        self.errors.raise_any()

    def _refuse_unknown(self) -> None:
        for name in self._fields:
            if name not in self._known and name not in ECHOED:
                known = ", ".join(sorted(self._known))
                self.add_error(name, f"is no field here; there are {known}")
        for child in self._children:
            child._refuse_unknown()

    def _items(self, name: str, type: type[Item], wanted: str) -> Iterator[tuple[int, Item]]:
        value = self.value(name, required=True)
        if value is not None and not isinstance(value, list):
            self.add_error(name, f"must be a list, not {shown(value)}")
            return
        for index, item in enumerate(value or []):
            if isinstance(item, type):
                yield index, item
            else:
                self.add_error((name, index), f"must be {wanted}, not {shown(item)}")


def unstorable(raw: object) -> Iterator[str]:
    """The paths of all texts of a JSON value, names of fields among them, that cannot be stored."""
    rest: list[tuple[str, object]] = [("", raw)]
    while rest:
        path, value = rest.pop()
        if isinstance(value, str) and not storable(value):
            yield path
        elif isinstance(value, list):
            rest.extend((join_path(path, index), item) for index, item in enumerate(value))
        elif isinstance(value, dict):
            for name, item in value.items():
                place = join_path(path, name)
                if not storable(name):
                    yield place
                rest.append((place, item))
