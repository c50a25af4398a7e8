"""`pipeline logs`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import Any

import click

from pipeline_cli.client import Client
from pipeline_cli.exits import BrokeOff
from pipeline_cli.options import with_service
from pipeline_cli.output import Output
from pipeline_cli.progress import LONGEST_PAUSE, patiently

OVERLAP = timedelta(seconds=5)


def of(what: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The options by which lines are chosen, for a command that prints those of a `what`."""
    options = (
        click.option("--follow", "-f", is_flag=True, help=f"Go on until the {what} has ended."),
        click.option("--task", help="Only this task.  [default: all]"),
        click.option("--tail", type=click.IntRange(min=0), help="Only so many lines from the end."),
        click.option("--since", help="Only what was written since: RFC 3339, or seconds."),
    )
    return lambda command: reduce(lambda made, option: option(made), reversed(options), command)


@click.command()
@click.argument("job_id", metavar="ID")
@of("job")
@click.option("--replica", type=click.IntRange(min=0), help="Only the replica with this index.")
@click.option("--attempt", type=click.IntRange(min=0), help="Which try of each replica, from 0.  [default: the last]")
@with_service
def logs(service: Client, out: Output, job_id: str, follow: bool, **filters: Any) -> None:
    """Print what a job's replicas wrote.

    Lines of several replicas are merged by time and prefixed. They are there after the job has ended, too.
    """
    show(service, out, ("v1", "job", "logs", job_id), follow=follow, **filters)


def show(service: Client, out: Output, path: Sequence[str], *, follow: bool, **filters: Any) -> None:
    """Print the lines that the service has there, as they come. Raises click.UsageError where JSON is wanted."""
    if out.json:
        raise click.UsageError("logs are text: --output json means nothing here")
    params = {name: value for name, value in filters.items() if value is not None}
    if follow:
        params["follow"] = "true"

    def lines() -> Iterator[bytes]:
        return service.stream(*path, params=params, follow=follow)

    for chunk in followed(lines, lambda: service.get("v1", "version")) if follow else lines():
        sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()


def followed(lines: Callable[[], Iterator[bytes]], ask: Callable[[], Any]) -> Iterator[bytes]:
    """What `lines` gives, asked anew while the service goes away before the first of them.

    Once lines have come, nobody knows where in the middle of several replicas to go on, and BrokeOff says how to. `ask`
    raises Unavailable while the service is away.
    """
    came: datetime | None = None
    while True:
        try:
            for chunk in lines():
                came = datetime.now(UTC)
                yield chunk
            return
        except BrokeOff as error:
            if came:
                raise BrokeOff(
                    f"{error.message}. Nothing is lost. The same command with `--since {since(came)}` goes on; "
                    f"the lines of the last moments come again"
                ) from error
            time.sleep(LONGEST_PAUSE)
            patiently(ask)


def since(came: datetime) -> str:
    """The time to go on from when the last lines came at `came`: lines are on their way for a while."""
    return (came - OVERLAP).isoformat(timespec="seconds").replace("+00:00", "Z")
