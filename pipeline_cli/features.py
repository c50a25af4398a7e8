"""`pipeline feature`: register, show and switch features."""

from __future__ import annotations

from typing import Any

import click

from pipeline_cli import render, render_plan
from pipeline_cli.client import ServiceClient
from pipeline_cli.manifest import documents
from pipeline_cli.options import Instant, with_service
from pipeline_cli.output import Output
from pipeline_cli.simple import change_command, show_command


@click.group()
def feature() -> None:
    """Register, show and switch features."""


@feature.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(allow_dash=True, dir_okay=False))
@click.option("--on", is_flag=True, help="Switch them on too, also those that were there and off.")
@with_service
def register(service: ServiceClient, out: Output, files: tuple[str, ...], on: bool) -> None:
    """Register the features of YAML or JSON files.

    A file may hold several. One that exists already is replaced, and stays on or off as it is.
    """
    features = [document for file in files for document in documents(file)]
    done = []
    for document in features:
        service.post("v1", "features", body=document)
        if on:
            service.put("v1", "features", "turn-on", document["name"])
        done.append(document["name"])
        out.progress(f"{document['name']} registered{' and on' if on else ''}")
    out.show(done, lambda _: [])


@feature.command("what-if")
@click.argument("file", type=click.Path(allow_dash=True, dir_okay=False))
@click.option(
    "--since", "startAt", type=Instant(), help="Jobs submitted then or later: unix seconds, RFC 3339, or 30m, 2h, 7d."
)
@click.option("--until", "endAt", type=Instant(), help="Jobs submitted then or before.")
@click.option("--job", "jobID", metavar="ID", help="Also show the value of every condition for this job.")
@with_service
def what_if(service: ServiceClient, out: Output, file: str, **given: Any) -> None:
    """Show which of the stored jobs the feature in a file would take part in, without registering it.

    They are compared with the jobs that the registered feature of the same name matches.
    """
    query = {name: value for name, value in given.items() if value is not None}
    document, *more = documents(file)
    if more:
        raise click.UsageError(f"{file} holds {len(more) + 1} features; give a file with one")
    answer = service.post("v1", "features", "what-if", body=document, params=query)
    out.show(answer.payload, render_plan.what_if)


@feature.command("list")
@click.argument("author", default="all")
@with_service
def list_features(service: ServiceClient, out: Output, author: str) -> None:
    """List features, of AUTHOR or of all."""
    out.show(service.all("v1", "features", "list", author), render.features)


for command in (
    show_command("show", "features/detail/{}", render.feature, help="Show a feature with its plugins."),
    change_command("on", "PUT", "features/turn-on/{}", "{} is on", help="Switch a feature on."),
    change_command("off", "PUT", "features/turn-off/{}", "{} is off", help="Switch a feature off."),
    change_command("delete", "DELETE", "features/{}", "{} deleted", help="Delete a feature with its plugins."),
):
    feature.add_command(command)
