"""Schedules (`pipeline flow schedule`, `pause`, `resume`) and backfills (`pipeline flow backfill`, `pipeline backfill`)."""

from __future__ import annotations

import click

from pipeline_cli import render_schedules as render
from pipeline_cli.client import ServiceClient
from pipeline_cli.options import with_service
from pipeline_cli.output import Output
from pipeline_cli.simple import show_command

name_argument = click.argument("name")
id_argument = click.argument("backfill_id", metavar="ID")


@click.group("backfill")
def backfills() -> None:
    """Show, stop and resume backfills of flows."""


@click.command()
@name_argument
@click.option(
    "--count", type=click.IntRange(1, 1000), default=10, show_default=True, help="How many of the next points."
)
@with_service
def schedule(service: ServiceClient, out: Output, name: str, count: int) -> None:
    """Show when a flow runs next, and what it has missed."""
    out.show(service.get("v1", "flows", name, "schedule", params={"count": count}).payload, render.schedule)


@click.command()
@name_argument
@with_service
def pause(service: ServiceClient, out: Output, name: str) -> None:
    """Make no more runs of a flow's schedule."""
    payload = service.put("v1", "flows", name, "schedule", body={"paused": True}).payload
    out.show(payload, lambda _: [f"{name} is paused"])


@click.command()
@name_argument
@click.option("--replay", is_flag=True, help="Also run the points that were missed.")
@with_service
def resume(service: ServiceClient, out: Output, name: str, replay: bool) -> None:
    """Resume a paused schedule, from now."""
    payload = service.put("v1", "flows", name, "schedule", body={"paused": False, "replay": replay}).payload
    out.show(payload, render.resumed)


@click.command()
@name_argument
@click.option("--from", "start", required=True, metavar="TIME", help="The first point, inclusive.")
@click.option("--to", "end", required=True, metavar="TIME", help="The last point, inclusive.")
@click.option("--dry-run", is_flag=True, help="Only show which points it would run.")
@click.option("--stop-on-failure", is_flag=True, help="One point at a time, and none after one that failed.")
@with_service
def backfill(
    service: ServiceClient, out: Output, name: str, start: str, end: str, dry_run: bool, stop_on_failure: bool
) -> None:
    """Run points of a schedule's past, oldest first.

    Prints the backfill's ID. TIME is RFC 3339, or "2026-03-01 00:00:00" in the flow's time zone.
    """
    body = {"from": start, "to": end, "dryRun": dry_run, "stopOnFailure": stop_on_failure}
    out.show(service.post("v1", "flows", name, "backfill", body=body).payload, render.planned)


@click.command("backfills")
@name_argument
@with_service
def list_backfills(service: ServiceClient, out: Output, name: str) -> None:
    """List the backfills of a flow, the newest first."""
    out.show(service.all("v1", "flows", name, "backfills"), render.backfills)


backfills.add_command(
    show_command(
        "show", "backfills/{}", render.backfill, help="Show a backfill with its points and their runs.", metavar="ID"
    )
)


@backfills.command("stop")
@id_argument
@with_service
def stop_backfill(service: ServiceClient, out: Output, backfill_id: str) -> None:
    """Stop a backfill and its runs."""
    payload = service.put("v1", "backfills", backfill_id, body={"action": "stop"}).payload
    out.show(payload, lambda shown: [f"{shown['id']} is {shown['state']}"])


@backfills.command("resume")
@id_argument
@with_service
def resume_backfill(service: ServiceClient, out: Output, backfill_id: str) -> None:
    """Retry the failed points of a backfill, and go on with it."""
    payload = service.put("v1", "backfills", backfill_id, body={"action": "resume"}).payload
    out.show(payload, lambda shown: [f"{shown['id']} is {shown['state']}"])
