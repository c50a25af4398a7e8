"""Options that several commands share, and the types of their values."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from pipeline_cli.client import ServiceClient
from pipeline_cli.output import Output

DEFAULT_URL = "http://127.0.0.1:8080"
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def with_service(
    function: Callable[..., Any], *, form_options: Sequence[str] = ("-o", "--output")
) -> Callable[..., Any]:
    """Gives a command `--url` and `--output`, and as its first two arguments a `ServiceClient` and an `Output`.

    A command that has another use for `-o` leaves it out of `form_options`. The token comes from PIPELINE_TOKEN only, since
    command lines can be read by everybody on the machine.
    """

    @click.option(
        "--url", envvar="PIPELINE_URL", default=DEFAULT_URL, show_default=True, show_envvar=True, help="The service."
    )
    @click.option(
        *form_options, "form", type=click.Choice(["table", "json"]), default="table", help="Form of what is printed."
    )
    @functools.wraps(function)
    def command(url: str, form: str, **arguments: Any) -> Any:
        require_sendable(click.get_current_context())
        return function(ServiceClient(url, token()), Output(form), **arguments)

    return command


def require_sendable(context: click.Context) -> None:
    """Raises click.BadParameter for an argument that cannot be sent: not UTF-8, or not usable as a segment of a path."""
    for parameter in context.command.params:
        if isinstance(parameter.type, click.Path):
            continue
        for text in texts(context.params.get(parameter.name or "")):
            if any("\ud800" <= letter <= "\udfff" for letter in text):
                raise click.BadParameter("it is no text in UTF-8", context, parameter)
            if isinstance(parameter, click.Argument) and text in ("", ".", ".."):
                raise click.BadParameter(f'"{text}" names nothing', context, parameter)


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        for inner in value:
            yield from texts(inner)


def token() -> str:
    """The token in PIPELINE_TOKEN. Raises click.UsageError when it has characters that no token has."""
    value = os.environ.get("PIPELINE_TOKEN", "").strip()
    if not value.isprintable() or not value.isascii():
        raise click.UsageError("PIPELINE_TOKEN holds characters that no token has")
    return value


class Visible(click.ParamType[str]):
    """A text of visible ASCII characters, usable as the value of a header."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value)
        if not re.fullmatch(r"[!-~]{1,255}", text):
            self.fail("it should be 1 to 255 visible ASCII characters", param, ctx)
        return text


class Instant(click.ParamType[int]):
    """A point in time as unix seconds, given as unix seconds, as RFC 3339 or as an age (`90s`, `30m`, `2h`, `7d`)."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value)
        if text.isdecimal():
            return int(text)
        if ago := re.fullmatch(r"(\d{1,6})([smhd])", text):
            return int((datetime.now(UTC) - timedelta(**{UNITS[ago[2]]: int(ago[1])})).timestamp())
        try:
            instant = datetime.fromisoformat(text)
        except ValueError:
            self.fail(
                f'"{text}" is neither unix seconds, nor like 2025-01-31T12:00:00Z, nor like 30m, 2h or 7d', param, ctx
            )
        return int(instant.astimezone().timestamp())


class Expiry(click.ParamType[str]):
    """A point in time to come as RFC 3339, given so or as a span from now (`30m`, `12h`, `7d`)."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value)
        if span := re.fullmatch(r"(\d{1,6})([smhd])", text):
            expires = datetime.now(UTC) + timedelta(**{UNITS[span[2]]: int(span[1])})
            return expires.isoformat(timespec="seconds").replace("+00:00", "Z")
        return text


class Pair(click.ParamType[tuple[str, str]]):
    """`NAME=VALUE`, as a pair."""

    name = "name=value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        name, equals, text = str(value).partition("=")
        if not name or not equals:
            self.fail(f'"{value}" is not of the form NAME=VALUE', param, ctx)
        return name, text
