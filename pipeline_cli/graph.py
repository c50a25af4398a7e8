"""`pipeline flow graph`."""

from __future__ import annotations

from pathlib import Path

import click

from pipeline_cli.client import ServiceClient
from pipeline_cli.drawings import FORMATS
from pipeline_cli.flows import write
from pipeline_cli.options import with_service
from pipeline_cli.output import Output
from pipeline_core.flows.definition.flow import parse_stored


@click.command()
@click.argument("name")
@click.option(
    "--format", "notation", type=click.Choice([*FORMATS]), default="mermaid", show_default=True, help="What to draw in."
)
@click.option("--file", type=click.Path(dir_okay=False, path_type=Path), help="Write the drawing to this file.")
@with_service
def graph(service: ServiceClient, out: Output, name: str, notation: str, file: Path | None) -> None:
    """Draw a flow's tasks and what they depend on.

    An arrow leads from each task to those that wait for it.
    """
    flow = parse_stored(service.get("v1", "flows", name).payload)
    names = {key: task.name for key, task in flow.tasks.items()}
    drawing = FORMATS[notation](names, flow.dag)
    if file:
        write(file, drawing)
        out.note(f"written to {file}")
    else:
        out.show({"format": notation, "graph": drawing}, lambda shown: [shown["graph"].rstrip("\n")])
