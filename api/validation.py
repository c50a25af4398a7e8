"""Checking query parameters and small bodies against schemas, with errors that name the field and its value."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from marshmallow import Schema, ValidationError
from werkzeug.datastructures import MultiDict

from pipeline_core.errors import MissingParameter, PipelineError, WrongParameter

_QUOTED = 60


def query(schema: Schema | None, sent: MultiDict[str, str]) -> Mapping[str, Any]:
    """The query's parameters by the schema; without one, there may be none.

    Raises WrongParameter for unknown and repeated parameters and bad values, MissingParameter for missing ones.
    """
    for name, values in sent.lists():
        if len(values) > 1:
            raise _problem({name: ["It is given more than once."]}, {}, "The query parameter ")
        if "\0" in name or "\0" in values[0]:
            raise _problem({name.replace("\0", ""): ["It has a NUL character."]}, {}, "The query parameter ")
    values_by_name = sent.to_dict()
    if schema is None:
        raise _problem({name: ["There is no such parameter."] for name in values_by_name}, {}, "The query parameter ")
    try:
        loaded: Mapping[str, Any] = schema.load(values_by_name)
    except ValidationError as error:
        raise _problem(dict(_flat(error.messages)), values_by_name, "The query parameter ") from None
    return loaded


def body(schema: Schema, document: Any) -> Mapping[str, Any]:
    """A body by the schema. Raises WrongParameter and MissingParameter."""
    if not isinstance(document, dict):
        raise WrongParameter(f"The request's body must be a JSON object, and is {_shown(document)}.")
    try:
        loaded: Mapping[str, Any] = schema.load(document)
    except ValidationError as error:
        raise _problem(dict(_flat(error.messages)), document, "") from None
    return loaded


def _problem(errors: Mapping[str, list[str]], values: Mapping[str, Any], what: str) -> PipelineError:
    path, texts = next(iter(errors.items()))
    given = f" is {_shown(values[path])}" if path in values else ""
    missing = any("Missing data" in text for text in texts)
    kind = MissingParameter if missing else WrongParameter
    separator = ": " if given else " is wrong: "
    if missing:
        return kind(f"{what}{path} is missing.", errors=errors)
    return kind(f"{what}{path}{given}{separator}{' '.join(texts)}", errors=errors)


def _flat(messages: Any, path: str = "") -> Iterator[tuple[str, list[str]]]:
    if isinstance(messages, dict):
        for key, inner in messages.items():
            yield from _flat(inner, f"{path}.{key}" if path else str(key))
    else:
        yield path, [str(text) for text in messages]


def _shown(value: Any) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = json.dumps(value[:_QUOTED] if isinstance(value, str) else value, ensure_ascii=False)
    return text[:_QUOTED]
