"""`pipeline logs`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import Any

import click

from pipeline_cli.client import ServiceClient
from pipeline_cli.exits import ConnectionLost
from pipeline_cli.options import with_service
from pipeline_cli.output import Output
from pipeline_cli.progress import LONGEST_PAUSE, retry_while_unavailable

OVERLAP = timedelta(seconds=5)


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

    for chunk in with_reconnect(lines, lambda: service.get("v1", "version")) if follow else lines():
        sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()


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
