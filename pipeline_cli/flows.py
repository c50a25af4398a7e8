"""`pipeline flow`: the group, and importing, exporting, listing, showing and deleting flows."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import click

from pipeline_cli import render_flows
from pipeline_cli.client import ServiceClient
from pipeline_cli.exits import BadFile
from pipeline_cli.group import WRITE_FAULTS, Entry, LazyGroup
from pipeline_cli.manifest import documents
from pipeline_cli.options import with_service
from pipeline_cli.output import Output
from pipeline_cli.simple import change_command, list_command, show_command
from pipeline_core.flows.definition.flow import dump_document

COMMANDS = {
    "import": Entry("pipeline_cli.flows:import_flows", "Import the flows of a document, all of them or none."),
    "export": Entry("pipeline_cli.flows:export", "Print flows as the document that they were imported as."),
    "list": Entry("pipeline_cli.flows:list_flows", "List flows."),
    "show": Entry("pipeline_cli.flows:show", "Show a flow as it was imported."),
    "graph": Entry("pipeline_cli.graph:graph", "Draw a flow's tasks and what they depend on."),
    "run": Entry("pipeline_cli.runs:start", "Start a run of a flow, or of one of its tasks alone."),
    "runs": Entry("pipeline_cli.runs:of_flow", "List the runs of one flow, the newest first."),
    "schedule": Entry("pipeline_cli.schedules:schedule", "Show when a flow runs next, and what it has missed."),
    "pause": Entry("pipeline_cli.schedules:pause", "Make no more runs of a flow's schedule."),
    "resume": Entry("pipeline_cli.schedules:resume", "Resume a paused schedule, from now."),
    "backfill": Entry("pipeline_cli.schedules:backfill", "Run points of a schedule's past, oldest first."),
    "backfills": Entry("pipeline_cli.schedules:list_backfills", "List the backfills of a flow, the newest first."),
    "delete": Entry("pipeline_cli.flows:delete", "Delete a flow with the history of its runs."),
}

flow = LazyGroup(
    "flow",
    entries=COMMANDS,
    help="Import, export, run and schedule flows.",
    epilog="`pipeline run ID` shows a run, `pipeline runs` lists, stops and retries those of all flows.",
)


@click.command("import")
@click.argument("file", type=click.Path(allow_dash=True, dir_okay=False))
@with_service
def import_flows(service: ServiceClient, out: Output, file: str) -> None:
    """Import the flows of a document, all of them or none.

    FILE (- for standard input) is JSON or YAML. Flows that exist already are replaced. Schedules that are new or have
    changed are paused.
    """
    found = documents(file)
    if len(found) > 1:
        raise BadFile(f"{file} holds {len(found)} documents; flows are imported as one")
    payload = service.post("v1", "flows", "import", body=found[0]).payload
    out.show(
        payload,
        lambda shown: [render_flows.imported(name, paused=name in shown.get("paused", [])) for name in shown["flows"]],
    )


@click.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("-o", "file", type=click.Path(allow_dash=True, dir_okay=False), help="Write the document to this file.")
@partial(with_service, form_options=("--output",))
def export(service: ServiceClient, out: Output, names: tuple[str, ...], file: str | None) -> None:
    """Print flows as the document that they were imported as.

    All flows by name, or those named, in the order given. The output is the same for the same flows, byte by byte.
    """
    params = {"names": ",".join(names)} if names else {}
    text = dump_document(service.get("v1", "flows", "export", params=params).payload)
    if file in (None, "-"):
        sys.stdout.buffer.write(text.encode())
        sys.stdout.buffer.flush()
    else:
        write(Path(str(file)), text)
        out.note(f"written to {file}")


def write(path: Path, text: str) -> None:
    try:
        path.write_bytes(text.encode())
    except OSError as error:
        if error.errno in WRITE_FAULTS:
            raise
        raise BadFile(f"{path} cannot be written: {error.strerror}") from error


list_flows = list_command("list", "flows", render_flows.flows, help="List flows.")
show = show_command("show", "flows/{}", render_flows.entry, help="Show a flow as it was imported.")
delete = change_command(
    "delete", "DELETE", "flows/{}", "{} deleted", help="Delete a flow with the history of its runs."
)
