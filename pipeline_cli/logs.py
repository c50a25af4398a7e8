"""`pipeline logs`."""

from __future__ import annotations

import codecs
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import Any

import click

from pipeline_cli.client import ServiceClient
from pipeline_cli.exits import ConnectionLost, ServiceUnavailable
from pipeline_cli.options import with_service
from pipeline_cli.output import Output
from pipeline_cli.progress import LONGEST_PAUSE, PATIENCE_SECONDS, retry_while_unavailable

OVERLAP = timedelta(seconds=5)
_RESET = "\x1b[0m"
_COLOUR = r"\x1b\[[0-9;:]{0,64}m"
# Also what turns the direction of writing around.
_CONTROL = re.compile(rf"{_COLOUR}|\r+\n?|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_UNFINISHED = re.compile(r"(?:\x1b(?:\[[0-9;:]{0,64})?|\r+)\Z")


def line_options(what: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The options that select log lines, for a command that prints those of a job or a run (`what`)."""
    options = (
        click.option("--follow", "-f", is_flag=True, help=f"Go on until the {what} has ended."),
        click.option("--task", help="Only this task.  [default: all]"),
        click.option("--tail", type=click.IntRange(min=0), help="Only so many lines from the end."),
        click.option("--since", help="Only what was written since: RFC 3339, or seconds."),
    )
    return lambda command: reduce(lambda made, option: option(made), reversed(options), command)


@click.command()
@click.argument("job_id", metavar="ID")
@line_options("job")
@click.option("--replica", type=click.IntRange(min=0), help="Only the replica with this index.")
@click.option("--attempt", type=click.IntRange(min=0), help="Attempt of each replica, from 0.  [default: the last]")
@with_service
def logs(service: ServiceClient, out: Output, job_id: str, follow: bool, **filters: Any) -> None:
    """Print what a job's replicas wrote.

    Lines of several replicas are merged by time and prefixed. They are there after the job has ended, too.
    """
    show(service, out, ("v1", "job", "logs", job_id), follow=follow, **filters)


def show(service: ServiceClient, out: Output, path: Sequence[str], *, follow: bool, **filters: Any) -> None:
    """Stream the log lines at `path` to standard output. Raises click.UsageError with `--output json`."""
    if out.json:
        raise click.UsageError("logs are text: --output json means nothing here")
    params = {name: value for name, value in filters.items() if value is not None}
    if follow:
        params["follow"] = "true"

    def lines() -> Iterator[bytes]:
        return service.stream(*path, params=params, follow=follow)

    def patient() -> Iterator[bytes]:
        return when_served(lines, out.note)

    chunks = with_reconnect(patient, lambda: service.get("v1", "version")) if follow else patient()
    for chunk in for_terminal(chunks) if sys.stdout.isatty() else chunks:
        sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()


def for_terminal(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The chunks as a terminal may be given them: colours work, all other control characters are shown (`^[`), so that a job
    sets no title, clears no screen and overwrites no line. A carriage return begins a new line."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    pending, coloured = "", False
    for chunk in chunks:
        text = pending + decoder.decode(chunk)
        unfinished = _UNFINISHED.search(text)
        text, pending = (text[: unfinished.start()], unfinished[0]) if unfinished else (text, "")
        coloured = coloured or bool(re.search(_COLOUR, text))
        yield _CONTROL.sub(_visible, text).encode()
    yield (_CONTROL.sub(_visible, pending + decoder.decode(b"", True)) + (_RESET if coloured else "")).encode()


def _visible(match: re.Match[str]) -> str:
    text = match[0]
    if text.startswith("\x1b["):
        return text
    if text.startswith("\r"):
        return "\n"
    code = ord(text)
    return f"^{chr(code ^ 0x40)}" if code < 0x80 else f"<U+{code:04X}>"


def when_served(lines: Callable[[], Iterator[bytes]], note: Callable[[str], None]) -> Iterator[bytes]:
    """The chunks of `lines`, which is called again while the service answers that it is busy, for two minutes at most: it serves
    so many readers of logs at a time. `note` is called with each such answer."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        begun = False
        try:
            for chunk in lines():
                begun = True
                yield chunk
            return
        except ServiceUnavailable as error:
            pause = error.retry_after
            if begun or pause is None or time.monotonic() + pause > deadline:
                raise
            note(f"{error.message} Asking again in {pause:.0f} s.")
            time.sleep(pause)


def with_reconnect(lines: Callable[[], Iterator[bytes]], probe: Callable[[], Any]) -> Iterator[bytes]:
    """The chunks of `lines`, with reconnects as long as none has arrived.

    After the first chunk a reconnect could lose or repeat lines of some replicas: then ConnectionLost is raised, with the
    command that goes on. `probe` raises ServiceUnavailable while the service is unavailable.
    """
    received: datetime | None = None
    while True:
        try:
            for chunk in lines():
                received = datetime.now(UTC)
                yield chunk
            return
        except ConnectionLost as error:
            if received:
                raise ConnectionLost(
                    f"{error.message}. Nothing is lost. The same command with `--since {resume_from(received)}` goes on; "
                    f"the lines of the last moments come again"
                ) from error
            time.sleep(LONGEST_PAUSE)
            retry_while_unavailable(probe)


def resume_from(received: datetime) -> str:
    """The value of `--since` to go on with: OVERLAP before the last chunk was received, since lines arrive late."""
    return (received - OVERLAP).isoformat(timespec="seconds").replace("+00:00", "Z")
