"""Errors that are reported to users.

Each error class has a `code`, by which clients distinguish errors; the API maps the class to an HTTP status in one place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import ClassVar

FieldErrors = Mapping[str, Sequence[str]]


class Code(StrEnum):
    """The values of the `code` field of every response."""

    OPERATION_SUCCEEDED = "OPERATION_SUCCEEDED"
    LACK_OF_PARAM = "LACK_OF_PARAM"
    WRONG_PARAM = "WRONG_PARAM"
    UNSUPPORTED_PLUGIN_TYPE = "UNSUPPORTED_PLUGIN_TYPE"
    PERMISSION_DENIED = "PERMISSION_DENIED"
    OPERATION_TARGET_NOT_FOUND = "OPERATION_TARGET_NOT_FOUND"
    UNSUPPORTED_OPERATION = "UNSUPPORTED_OPERATION"
    INTERNAL_ERROR = "INTERNAL_ERROR"


class PipelineError(Exception):
    """The service could not do what was requested.

    `message` is a sentence that names the invalid field and its value; it defaults to the first line of the class's
    docstring. `errors` maps the path of a field (`plugins[0].callAddress`) to what is wrong with it.
    """

    code: ClassVar[Code] = Code.INTERNAL_ERROR

    def __init__(self, message: str | None = None, *, errors: FieldErrors | None = None) -> None:
        self.message = message or (type(self).__doc__ or "").strip().split("\n")[0]
        self.errors: dict[str, list[str]] = {path: list(texts) for path, texts in (errors or {}).items()}
        super().__init__(self.message)


class MissingParameter(PipelineError):
    """A required field is missing or empty."""

    code = Code.LACK_OF_PARAM


class WrongParameter(PipelineError):
    """A field has a wrong type, form or value."""

    code = Code.WRONG_PARAM


class TooLarge(WrongParameter):
    """The request is larger than the service takes."""


class UnsupportedMediaType(WrongParameter):
    """The request's body is not application/json."""


class UnsupportedPluginType(PipelineError):
    """There is no such plugin type."""

    code = Code.UNSUPPORTED_PLUGIN_TYPE


class Unauthenticated(PipelineError):
    """The request carries no valid token."""

    code = Code.PERMISSION_DENIED


class TooManyFailures(Unauthenticated):
    """Too many requests with an invalid token came from this address."""

    def __init__(self, message: str | None = None, *, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Forbidden(PipelineError):
    """The token lacks the privilege."""

    code = Code.PERMISSION_DENIED


class NotFound(PipelineError):
    """There is no such thing."""

    code = Code.OPERATION_TARGET_NOT_FOUND


class Expired(NotFound):
    """What is asked for was kept for its time, and then removed."""


class Conflict(PipelineError):
    """The target's state does not allow the operation."""

    code = Code.UNSUPPORTED_OPERATION


class Unavailable(PipelineError):
    """Something that the service depends on is away; nothing was done."""

    def __init__(self, message: str | None = None, *, retry_after: int = 5) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Contended(Unavailable):
    """The transaction conflicted with a concurrent one, and nothing was done; try again."""


class ConfigurationError(PipelineError):
    """The service is configured in a way that it cannot run with."""
