"""`pipeline plugin try`: what a plugin under development would have decided about past jobs."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import click

from pipeline_cli.checking.exchange import Caller
from pipeline_cli.client import ServiceClient
from pipeline_cli.endpoint import with_caller
from pipeline_cli.exits import Exit
from pipeline_cli.options import Instant, Pair, with_service
from pipeline_cli.output import Output
from pipeline_cli.trying import report
from pipeline_cli.trying.comparison import OUT_OF_TIME, Ambiguous, Comparison, compare
from pipeline_core.stages.names import PLUGIN_TYPE

AT_ONCE = 4
"""How many calls of the plugin are under way."""
FILTERS = {"kind": "kind", "user": "userID", "state": "state", "name": "name"}
"""What `--where` may name, and the query parameter that it is."""
_STAGES = {plugin_type: stage for stage, plugin_type in PLUGIN_TYPE.items()}


class NothingToCompare(click.ClickException):
    """No past job was decided by such a plugin."""

    exit_code = Exit.NOT_FOUND


@click.command("try")
@with_caller("try", _STAGES)
@click.option("--jobs", type=click.IntRange(1, 10_000), default=200, show_default=True, help="How many past jobs.")
@click.option(
    "--since", "startAt", type=Instant(), help="Jobs submitted then or later: unix seconds, RFC 3339, or 30m, 2h, 7d."
)
@click.option(
    "--where",
    "conditions",
    type=Pair(),
    multiple=True,
    metavar="NAME=VALUE",
    help=f"Only jobs with this value; names are {', '.join(FILTERS)}. Repeatable.",
)
@click.option("--against", metavar="KEY", help="Compare with what this plugin decided; needed where several did.")
@click.option("--json", "as_json", is_flag=True, help="Print what was found as JSON.")
@with_service
def try_plugin(
    service: ServiceClient,
    out: Output,
    caller: Caller,
    jobs: int,
    conditions: tuple[tuple[str, str], ...],
    against: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Send a running plugin the packets of past jobs, and compare its answers with what was decided then.

    The plugin need not be registered. Ends with 0 if all agree, and with 1 if not.
    """
    query = {name: value for name, value in {**given, "plugin": against}.items() if value is not None}
    query |= {"stage": str(_STAGES[caller.endpoint.type])} | _filters(conditions)
    quiet = as_json or out.json
    found: list[Comparison] = []
    comparing = partial(compare, caller, secrets.token_hex(4))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for page in pages(service, query, jobs):
            try:
                for one in pool.map(comparing, page):
                    if not found and one.now and not one.now.reached:
                        raise click.ClickException(f"{caller.endpoint.address}: {one.now.reason}")
                    found.append(one)
                    for line in () if quiet else report.lines(one):
                        click.echo(line)
            except Ambiguous as error:
                raise click.UsageError(str(error)) from error
            if found[-1].message == OUT_OF_TIME:
                break
    if not found:
        raise NothingToCompare(f"there is no such job that {caller.endpoint.type.with_article} decided about")
    if quiet:
        click.echo(json.dumps(report.document(caller.endpoint.address, caller.endpoint.type, found), indent=2))
    else:
        click.echo(report.summary(found))
    raise click.exceptions.Exit(Exit.OK if report.agrees(found) else Exit.JOB_NOT_SUCCEEDED)


def pages(service: ServiceClient, query: Mapping[str, Any], most: int) -> Iterator[list[Any]]:
    """At most so many jobs with their packets, page by page; no page is empty."""
    cursor, left = None, most
    while left > 0:
        given = {**query, "cursor": cursor} if cursor else query
        payload = service.get("v1", "job", "packets", params=given).payload
        page = payload["jobs"][:left]
        left -= len(page)
        if page:
            yield page
        if (cursor := payload["cursor"]) is None:
            return


def _filters(conditions: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """Raises click.UsageError."""
    unknown = [name for name, _ in conditions if name not in FILTERS]
    if unknown:
        raise click.UsageError(f"--where {unknown[0]}: it should be one of {', '.join(FILTERS)}")
    return {FILTERS[name]: value for name, value in conditions}
