"""Validation errors: where they are, what is wrong there, and the exception that tells all of them at once."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from pipeline_core.errors import PipelineError, WrongParameter

Path = tuple[str | int, ...]
"""Keys and indices from the root of a document to one of its values."""

_PLAIN_KEY = re.compile(r"(?!\d)[\w-]+")
_LONGEST_KEY = 60

MAX_ERRORS = 100
"""Errors that are listed one by one; of more, only their number is given."""
_MORE = re.compile(r"(at least )?(\d+) more errors? (?:is|are) not listed")


def path_text(path: Path) -> str:
    """A path as errors print it: `spec.roles[0].name`, `metadata.labels["a/b"]`; the root is `.`."""
    return join_path("", *path) or "."


def join_path(path: str, *parts: str | int) -> str:
    """The path of what lies below `path`, which is empty for the root: each part is a key or an index."""
    for part in parts:
        if isinstance(part, int):
            path += f"[{part}]"
        elif _PLAIN_KEY.fullmatch(part):
            path += f".{part}" if path else part
        else:
            key = json.dumps(part[:_LONGEST_KEY], ensure_ascii=False)
            path += f"[{key.encode('utf-8', 'backslashreplace').decode()}]"
    return path


class ValidationErrors:
    """Collects what is wrong with a document, in the order in which it was found: MAX_ERRORS, and how many more."""

    def __init__(self) -> None:
        self._more = 0
        self._at_least = False
        self._found: list[tuple[type[PipelineError], str, str]] = []

    def add(self, path: str, text: str, error: type[PipelineError] = WrongParameter) -> None:
        """Note what is wrong at a path; `error` is the class to raise if this is the first."""
        if len(self._found) < MAX_ERRORS:
            self._found.append((error, path, text))
        else:
            self._more += 1

    def leave_out_rest(self) -> None:
        """Note that there is more, which was not counted."""
        self._more += 1
        self._at_least = True

    def adopt(self, error: PipelineError) -> None:
        """Take over what another reader found."""
        for path, texts in error.errors.items():
            self.adopt_texts(path, ((text, type(error)) for text in texts))

    def adopt_texts(self, path: str, texts: Iterable[tuple[str, type[PipelineError]]]) -> None:
        """Take over what another reader found at a path."""
        for text, error in texts:
            if left_out := _MORE.fullmatch(text):
                self._more += int(left_out[2])
                self._at_least = self._at_least or bool(left_out[1])
            else:
                self.add(path, text, error)

    def __bool__(self) -> bool:
        return bool(self._found)

    @property
    def by_path(self) -> dict[str, list[str]]:
        """The texts, by the path that they are about; under the root's path, how many are left out."""
        errors: dict[str, list[str]] = {}
        for _, path, text in self._found:
            errors.setdefault(path, []).append(text)
        if self._more:
            words = "error is" if self._more == 1 else "errors are"
            errors.setdefault(path_text(()), []).append(f"{self._least}{self._more} more {words} not listed")
        return errors

    def sentence(self, separator: str = ": ") -> str:
        """What was found first, with the number of the others. There must be something."""
        _, path, text = self._found[0]
        more = len(self._found) - 1 + self._more
        return f"{path}{separator}{text}" + (f" (and {self._least}{more} more)" if more else "")

    @property
    def _least(self) -> str:
        return "at least " if self._at_least else ""

    def raise_any(self) -> None:
        """Raises the error of what was found first, with the others in `errors`; nothing when there is nothing."""
        if self._found:
            raise self._found[0][0](self.sentence(), errors=self.by_path)
