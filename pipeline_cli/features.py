"""`pipeline feature`: register, show and switch features."""

from __future__ import annotations

import click

from pipeline_cli import render
from pipeline_cli.client import ServiceClient
from pipeline_cli.manifest import documents
from pipeline_cli.options import with_service
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
