"""`pipeline plugins`, and `pipeline deliveries` of events to LifeHooks."""

from __future__ import annotations

import click

from pipeline_cli import render
from pipeline_cli.client import ServiceClient
from pipeline_cli.options import with_service
from pipeline_cli.output import Output


@click.command()
@click.argument("plugin_type", metavar="[TYPE]", default="all")
@with_service
def plugins(service: ServiceClient, out: Output, plugin_type: str) -> None:
    """List plugins in running order.

    TYPE is TemplateTranslator, FactorGenerator, AccessGate, TemplateDecorator, SchedulerBinder or LifeHook.
    """
    out.show(service.all("v1", "plugins", "list", plugin_type), render.plugins)


@click.command()
@click.option("--job", "jobID", metavar="ID", help="Only of this job.")
@click.option("--plugin", metavar="KEY", help="Only to this LifeHook.")
@click.option("--status", help="Only those with this status.")
@with_service
def deliveries(service: ServiceClient, out: Output, **filters: str | None) -> None:
    """List deliveries of events to LifeHooks, and their status."""
    given = {name: value for name, value in filters.items() if value is not None}
    out.show(service.all("v1", "hooks", "deliveries", params=given), render.deliveries)
