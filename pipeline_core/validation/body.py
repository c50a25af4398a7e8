"""Request bodies, read field by field: parsed JSON of any shape goes in, checked values or clear errors come out."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from pipeline_core.errors import MissingParameter, PipelineError, WrongParameter

ECHOED = frozenset({"key", "sequence", "effectiveJobSelector", "createdAt", "updatedAt"})
"""Fields that older clients send, or send back from an answer; they are ignored wherever nothing reads them."""

Item = TypeVar("Item")
Check = Callable[[str], str | None]
"""What is wrong with a text ("must be …"), or None."""

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_PRINTABLE = re.compile(r"[!-~]([ -~]*[!-~])?")


def storable(text: str) -> bool:
    """Whether PostgreSQL can keep the text: it has neither NUL characters nor lone surrogates."""
    return not _UNSTORABLE.search(text)


def header_value(text: str) -> bool:
    """Whether every HTTP client can send the text in a header: printable ASCII without outer blanks."""
    return _PRINTABLE.fullmatch(text) is not None


def shown(value: object, longest: int = 80) -> str:
    """A value for use in a message: what it is, or JSON that is cut where it is long and safe to print."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    text = json.dumps(value, ensure_ascii=False)
    text = text if len(text) <= longest else f"{text[:longest]}…"
    return text.encode("utf-8", "backslashreplace").decode()


class Problems:
    """All that is wrong with a body, in the order in which it was found."""

    def __init__(self) -> None:
        self._found: list[tuple[type[PipelineError], str, str]] = []

    def add(self, path: str, text: str, error: type[PipelineError] = WrongParameter) -> None:
        self._found.append((error, path, text))

    def adopt(self, error: PipelineError) -> None:
        """Take over what another reader found."""
        for path, texts in error.errors.items():
            for text in texts:
                self.add(path, text, type(error))

    def __bool__(self) -> bool:
        return bool(self._found)

    def raise_any(self) -> None:
        """Raises the error of what was found first, with all of it in `errors`."""
        if not self._found:
            return
        error, path, text = self._found[0]
        errors: dict[str, list[str]] = {}
        for _, place, words in self._found:
            errors.setdefault(place, []).append(words)
        more = len(self._found) - 1
        raise error(f"{path}: {text}" + (f" (and {more} more)" if more else ""), errors=errors)


class Body:
    """A JSON object of a request.

    Each method reads one field and gives a value of the promised type, a harmless one when something is wrong with it.
    Call `finish` before any of the values is used: it raises what was found, fields that nobody read among it.

    A required field lacks (MissingParameter) when it is not there, null, or an empty text, list or object. An optional
    field that is null counts as left out.
    """

    def __init__(self, fields: Mapping[str, Any], problems: Problems, prefix: str = "") -> None:
        self.problems = problems
        self._fields = fields
        self._prefix = prefix
        self._known: set[str] = set()
        self._children: list[Body] = []

    @classmethod
    def of(cls, raw: object) -> Body:
        """The whole body, parsed JSON of any shape. Raises WrongParameter when it is no object."""
        if not isinstance(raw, dict):
            raise WrongParameter(f"The body must be a JSON object, not {shown(raw)}.")
        problems = Problems()
        for path in _unstorable(raw):
            problems.add(path, "must not contain NUL characters or lone surrogates")
        return cls(raw, problems)

    def path(self, name: str) -> str:
        """Where the field stands, counted from the whole body."""
        return f"{self._prefix}{name}"

    def wrong(self, name: str, text: str, error: type[PipelineError] = WrongParameter) -> None:
        """Note what is wrong with a field."""
        self.problems.add(self.path(name), text, error)

    def text(
        self, name: str, *, required: bool = False, default: str = "", secret: bool = False, check: Check | None = None
    ) -> str:
        """A text; `check` is asked about one that is not empty. The value of a `secret` one is in no message."""
        value = self.value(name, required=required)
        if value is None:
            return default
        if not isinstance(value, str):
            self.wrong(name, "must be a text" + ("" if secret else f", not {shown(value)}"))
            return default
        if value and check and (problem := check(value)):
            self.wrong(name, problem + ("" if secret else f"; given {shown(value)}"))
        return value

    def texts(self, name: str) -> list[str]:
        """A required list of texts."""
        return [item for _, item in self._items(name, str, "a text")]

    def objects(self, name: str) -> list[Body]:
        """A required list of objects, each to be read in turn; `finish` of this body finishes them too."""
        self._children = [
            Body(item, self.problems, f"{self.path(name)}.{index}.")
            for index, item in self._items(name, dict, "an object")
        ]
        return self._children

    def flag(self, name: str, default: bool = False) -> bool:
        """An optional boolean."""
        value = self.value(name)
        if value is None or isinstance(value, bool):
            return default if value is None else value
        self.wrong(name, f"must be true or false, not {shown(value)}")
        return default

    def integer(self, name: str, default: int, within: range) -> int:
        """An optional whole number."""
        value = self.value(name)
        if value is None:
            return default
        number = int(value) if isinstance(value, float) and value.is_integer() else value
        if isinstance(number, bool) or not isinstance(number, int) or number not in within:
            self.wrong(name, f"must be a whole number from {within[0]} to {within[-1]}, not {shown(value)}")
            return default
        return number

    def value(self, name: str, *, required: bool = False) -> Any:
        """Whatever stands there; None when nothing does."""
        self._known.add(name)
        value = self._fields.get(name)
        if required and value in (None, "", [], {}):
            self.wrong(name, "is required and may not be empty", MissingParameter)
            return None
        return value

    def ignore(self, *names: str) -> None:
        """Let these fields pass: they are sent back from an answer and mean nothing here."""
        self._known.update(names)

    def finish(self) -> None:
        """Raises MissingParameter or WrongParameter, by what was found first, when anything is wrong."""
        self._refuse_unknown()
        self.problems.raise_any()

    def _refuse_unknown(self) -> None:
        for name in self._fields:
            if name not in self._known and name not in ECHOED:
                known = ", ".join(sorted(self._known))
                self.wrong(shown(name)[1:-1], f"is no field here; there are {known}")
        for child in self._children:
            child._refuse_unknown()

    def _items(self, name: str, type: type[Item], wanted: str) -> Iterator[tuple[int, Item]]:
        value = self.value(name, required=True)
        if value is not None and not isinstance(value, list):
            self.wrong(name, f"must be a list, not {shown(value)}")
            return
        for index, item in enumerate(value or []):
            if isinstance(item, type):
                yield index, item
            else:
                self.wrong(f"{name}.{index}", f"must be {wanted}, not {shown(item)}")


def _unstorable(raw: object) -> Iterator[str]:
    """The paths of all texts, names of fields among them, that cannot be stored."""
    rest: list[tuple[str, object]] = [("", raw)]
    while rest:
        path, value = rest.pop()
        if isinstance(value, str) and not storable(value):
            yield path
        elif isinstance(value, list):
            rest.extend((f"{path}.{index}".lstrip("."), item) for index, item in enumerate(value))
        elif isinstance(value, dict):
            for name, item in value.items():
                place = f"{path}.{shown(name)[1:-1]}".lstrip(".")
                if not storable(name):
                    yield place
                rest.append((place, item))
