"""`pipeline logs`."""

from __future__ import annotations

import sys
from typing import Any

import click

from api.cli.client import Client
from api.cli.options import with_service
from api.cli.output import Output


@click.command()
@click.argument("job_id", metavar="ID")
@click.option("--follow", "-f", is_flag=True, help="Go on until the job has ended.")
@click.option("--task", help="Only this task.  [default: all]")
@click.option("--replica", type=click.IntRange(min=0), help="Only the replica with this index.")
@click.option("--attempt", type=click.IntRange(min=0), help="Which attempt.  [default: the last]")
@click.option("--tail", type=click.IntRange(min=0), help="Only so many lines from the end.")
@click.option("--since", help="Only what was written since: RFC 3339, or seconds.")
@with_service
def logs(service: Client, out: Output, job_id: str, follow: bool, **filters: Any) -> None:
    """Print what a job's replicas wrote.

    Lines of several replicas are merged by time and prefixed. They are there after the job has ended, too.
    """
    if out.json:
        raise click.UsageError("logs are text: --output json means nothing here")
    params = {name: value for name, value in filters.items() if value is not None}
    if follow:
        params["follow"] = "true"
    for chunk in service.stream("v1", "job", "logs", job_id, params=params, follow=follow):
        sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()
