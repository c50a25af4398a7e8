"""Exit codes of the `pipeline` command, which scripts may rely on, and its exceptions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum

import click

from pipeline_core.errors import Code


class Exit(IntEnum):
    OK = 0
    JOB_NOT_SUCCEEDED = 1
    USAGE = 2
    REFUSED = 3
    NOT_FOUND = 4
    UNAVAILABLE = 5
    DENIED = 6
    UNWRITABLE = 7
    INTERRUPTED = 130

    @property
    def meaning(self) -> str:
        return MEANINGS[self]


MEANINGS: Mapping[Exit, str] = {
    Exit.OK: "done; with `--wait`, `wait` and `--watch`: the job or run succeeded",
    Exit.JOB_NOT_SUCCEEDED: (
        "with `--wait`, `wait` and `--watch`: the job or run did not succeed; with `status --check` and `doctor`: something is "
        "wrong; with `plugin check`: a rule does not hold; with `plugin try`: not all agree"
    ),
    Exit.USAGE: "the command line or the file is wrong; nothing was sent",
    Exit.REFUSED: "the service refused (4xx): its code, its message and what is wrong with each field are printed",
    Exit.NOT_FOUND: "there is no such job, feature, plugin, token, template, flow or run, or its logs have expired",
    Exit.UNAVAILABLE: "the service cannot be reached, answered 5xx, or is not a Pipeline service",
    Exit.DENIED: "the token is missing, unknown, or lacks the privilege",
    Exit.UNWRITABLE: "what was to be printed cannot be written, such as to a full disk; what was asked for may be done",
    Exit.INTERRUPTED: "Ctrl-C; a submitted job or a started run goes on",
}


class BadFile(click.ClickException):
    """A file cannot be read, or is not what the command expects."""

    exit_code = Exit.USAGE


class ServiceUnavailable(click.ClickException):
    """The service cannot be reached or answered 5xx; `retry_after` is the pause in seconds that it requested, if any."""

    exit_code = Exit.UNAVAILABLE

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class ConnectionLost(ServiceUnavailable):
    """The connection was closed before the answer had ended."""


class Refused(click.ClickException):
    """The service answered 4xx: `code`, message, and the errors of each field by its path."""

    def __init__(self, status: int, code: str, message: str, errors: Mapping[str, Sequence[str]]) -> None:
        super().__init__("\n".join([f"{code}: {message}", *further_errors(errors, message)]))
        self.status = status
        self.code = code
        # click declares it for the class, and reads it from the instance.
        self.exit_code = exit_for(status, code)  # type: ignore[misc]


def further_errors(errors: Mapping[str, Sequence[str]], message: str) -> list[str]:
    """A line for each validation error that is not in the message, which has the first one."""
    return [
        f"  {path}: {text}"
        for path, texts in errors.items()
        for text in texts
        if not (path in message and text in message)
    ]


def exit_for(status: int, code: str) -> Exit:
    """The exit code for an answer of the service that is an error."""
    if status >= 500:
        return Exit.UNAVAILABLE
    # Too many failed authentications are answered 429 with this code, hence not by status alone.
    if code == Code.PERMISSION_DENIED or status in (401, 403):
        return Exit.DENIED
    return Exit.NOT_FOUND if code == Code.OPERATION_TARGET_NOT_FOUND else Exit.REFUSED
