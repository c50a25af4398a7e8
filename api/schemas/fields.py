"""Fields of query parameters, strictly parsed, and the base classes of schemas."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from marshmallow import Schema, ValidationError, fields, validate
from werkzeug.datastructures import MultiDict

from api.paging import DEFAULT_SIZE, MAX_NUMBER, MAX_SIZE
from pipeline_core.errors import MissingParameter, PipelineError, WrongParameter
from pipeline_core.states import ALIASES, JobState, parse_states
from pipeline_core.validation.texts import shown, storable

_DIGITS = re.compile(r"[0-9]{1,20}")

LAST_SECOND = 253370764799
"""The end of the year 9998, in unix seconds: adding to it stays within the range of datetime."""


class WholeNumber(fields.Integer):
    """A whole number in decimal digits, within bounds."""

    def __init__(self, least: int, most: int, **options: Any) -> None:
        self.bounds = least, most
        super().__init__(validate=validate.Range(least, most), **options)

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **options: Any) -> int:
        return _whole(value, *self.bounds)


class Flag(fields.Boolean):
    """`true` or `false`."""

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **options: Any) -> bool:
        if value in ("true", "false"):
            return bool(value == "true")
        raise ValidationError("It must be true or false.")


class UnixSeconds(fields.Integer):
    """A time in unix seconds; loads as an aware datetime."""

    def __init__(self, *, metadata: Mapping[str, Any]) -> None:
        bounds = {"minimum": 0, "maximum": LAST_SECOND}
        super().__init__(metadata={**bounds, **metadata})

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **options: Any) -> Any:
        return datetime.fromtimestamp(_whole(value, 0, LAST_SECOND), UTC)


class Timestamp(fields.String):
    """A time as RFC 3339 or in unix seconds; loads as an aware datetime."""

    _SECONDS = re.compile(r"[0-9]{1,11}(\.[0-9]{1,9})?")
    _RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)

    def __init__(self, *, metadata: Mapping[str, Any], **options: Any) -> None:
        forms = [{"format": "date-time"}, {"pattern": f"^{self._SECONDS.pattern}$"}]
        super().__init__(metadata={"anyOf": forms, **metadata}, **options)

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **options: Any) -> Any:
        try:
            if self._SECONDS.fullmatch(value):
                return datetime.fromtimestamp(float(value), UTC)
            if self._RFC3339.fullmatch(value):
                return datetime.fromisoformat(value.upper()).astimezone(UTC)
        except (ValueError, OverflowError, OSError):
            pass
        raise ValidationError("It must be a time as RFC 3339 (2026-01-31T12:00:00Z) or in unix seconds.")


class CommaSeparated(fields.String):
    """One or more words, separated by commas; loads as a list. With `choices`, each must be one of them."""

    def __init__(self, choices: Sequence[str] = (), *, metadata: Mapping[str, Any], **options: Any) -> None:
        self.choices = choices
        super().__init__(metadata={"pattern": comma_list(choices), **metadata}, **options)

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **options: Any) -> Any:
        words = [word.strip() for word in value.split(",")]
        if not all(words):
            raise ValidationError("It has an empty word; give one or more, separated by commas.")
        if self.choices and (wrong := [word for word in words if word not in self.choices]):
            raise ValidationError(f'"{wrong[0][:60]}" is not one of {", ".join(self.choices)}.')
        return words


class States(CommaSeparated):
    """Names of job states or aliases, in any case; loads as the set of states."""

    def __init__(self, *, metadata: Mapping[str, Any], **options: Any) -> None:
        super().__init__(metadata={"pattern": comma_list(tuple(ALIASES)), **metadata}, **options)

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **options: Any) -> Any:
        states: frozenset[JobState] = frozenset()
        for word in super()._deserialize(value, attr, data, **options):
            try:
                states |= parse_states(word)
            except KeyError:
                raise ValidationError(f'"{word[:60]}" is not one of {", ".join(ALIASES)}.') from None
        return states


class Query(Schema):
    """Query parameters."""

    class Meta:
        unknown = "raise"

    error_messages = {"unknown": "There is no such parameter."}

    def read(self, sent: MultiDict[str, str]) -> Mapping[str, Any]:
        """The parameters of a query.

        Raises WrongParameter for unknown and repeated parameters and bad values, MissingParameter for missing ones.
        """
        for name, values in sent.lists():
            if len(values) > 1:
                raise WrongParameter(f"The query parameter {shown(name)} is given more than once.")
            if not storable(name + values[0]):
                raise WrongParameter(f"The query parameter {shown(name)} has a NUL character.")
        given = sent.to_dict()
        try:
            loaded: Mapping[str, Any] = self.load(given)
        except ValidationError as error:
            raise _refusal(error.normalized_messages(), given) from None
        return loaded


class Pages(Query):
    """Which page of a list."""

    pageNumber = WholeNumber(1, MAX_NUMBER, load_default=1)
    pageSize = WholeNumber(1, MAX_SIZE, load_default=DEFAULT_SIZE)


class OptionalPages(Query):
    """Which page of a list; without these parameters the whole list is answered."""

    pageNumber = WholeNumber(1, MAX_NUMBER)
    pageSize = WholeNumber(1, MAX_SIZE)


def _refusal(errors: Mapping[str, list[str]], given: Mapping[str, str]) -> PipelineError:
    name, texts = next(iter(errors.items()))
    if name not in given:
        return MissingParameter(f"The query parameter {name} is missing.", errors=errors)
    return WrongParameter(f"The query parameter {name} is {shown(given[name])}: {' '.join(texts)}", errors=errors)


class DocumentSchema(Schema):
    """Part of an import document: documented here, and parsed in `pipeline_core.flows.definition`."""

    class Meta:
        unknown = "raise"


def comma_list(choices: Sequence[str] = ()) -> str:
    """The pattern of one or more words separated by commas; with `choices`, of those alone."""
    word = f"({'|'.join(choices)})" if choices else r"[^,\s][^,]*"
    return rf"^\s*{word}\s*(,\s*{word}\s*)*$"


def nullable_time() -> fields.String:
    """A time in an answer: RFC 3339 in UTC with `Z`, or null."""
    return fields.String(required=True, allow_none=True, metadata={"format": "date-time"})


def _whole(value: Any, least: int, most: int) -> int:
    if isinstance(value, str) and _DIGITS.fullmatch(value) and least <= int(value) <= most:
        return int(value)
    raise ValidationError(f"It must be a whole number from {least} to {most}.")
