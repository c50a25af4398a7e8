"""`pipeline template`: templates of the tasks of flows."""

from __future__ import annotations

import click

from pipeline_cli import render, render_flows
from pipeline_cli.client import ServiceClient
from pipeline_cli.exits import BadFile
from pipeline_cli.group import Entry, LazyGroup
from pipeline_cli.manifest import documents
from pipeline_cli.options import with_service
from pipeline_cli.output import Output
from pipeline_cli.simple import change_command, show_command

COMMANDS = {
    "import": Entry(
        "pipeline_cli.templates:import_templates", "Import the templates of a document, all of them or none."
    ),
    "list": Entry("pipeline_cli.templates:list_templates", "List templates, built-in ones included."),
    "show": Entry("pipeline_cli.templates:show", "Show a template with its arguments."),
    "delete": Entry("pipeline_cli.templates:delete", "Delete a template that no flow uses."),
}

template = LazyGroup("template", entries=COMMANDS, help="Import and show templates of tasks.")


@click.command("import")
@click.argument("file", type=click.Path(allow_dash=True, dir_okay=False))
@with_service
def import_templates(service: ServiceClient, out: Output, file: str) -> None:
    """Import the templates of a document, all of them or none.

    FILE (- for standard input) is JSON or YAML: templates by name. Those that exist already are replaced.
    """
    found = documents(file)
    if len(found) > 1:
        raise BadFile(f"{file} holds {len(found)} documents; templates are imported as one")
    payload = service.post("v1", "templates", body=found[0]).payload
    out.show(payload, lambda shown: [render_flows.imported(name) for name in shown["templates"]])


@click.command("list")
@with_service
def list_templates(service: ServiceClient, out: Output) -> None:
    """List templates, built-in ones included."""
    out.show(service.get("v1", "templates").payload, render_flows.templates)


show = show_command("show", "templates/{}", render.document, help="Show a template with its arguments.")
delete = change_command("delete", "DELETE", "templates/{}", "{} deleted", help="Delete a template that no flow uses.")
