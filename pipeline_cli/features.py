"""`pipeline feature`: register, show and switch features."""

from __future__ import annotations

import click

from pipeline_cli import render
from pipeline_cli.client import ServiceClient
from pipeline_cli.manifest import documents
from pipeline_cli.options import with_service
from pipeline_cli.output import Output

name_argument = click.argument("name")


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


@feature.command()
@name_argument
@with_service
def show(service: ServiceClient, out: Output, name: str) -> None:
    """Show a feature with its plugins."""
    out.show(service.get("v1", "features", "detail", name).payload, render.feature)


@feature.command()
@name_argument
@with_service
def on(service: ServiceClient, out: Output, name: str) -> None:
    """Switch a feature on."""
    out.show(service.put("v1", "features", "turn-on", name).envelope, lambda _: [f"{name} is on"])


@feature.command()
@name_argument
@with_service
def off(service: ServiceClient, out: Output, name: str) -> None:
    """Switch a feature off."""
    out.show(service.put("v1", "features", "turn-off", name).envelope, lambda _: [f"{name} is off"])


@feature.command()
@name_argument
@with_service
def delete(service: ServiceClient, out: Output, name: str) -> None:
    """Delete a feature with its plugins."""
    out.show(service.delete("v1", "features", name).envelope, lambda _: [f"{name} deleted"])
