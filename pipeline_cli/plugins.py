"""`pipeline plugins`, and `pipeline deliveries` for what LifeHooks were told."""

from __future__ import annotations

import click

from pipeline_cli import render
from pipeline_cli.client import Client
from pipeline_cli.options import with_service
from pipeline_cli.output import Output


@click.command()
@click.argument("plugin_type", metavar="[TYPE]", default="all")
@with_service
def plugins(service: Client, out: Output, plugin_type: str) -> None:
    """List plugins in running order.

    TYPE is TemplateTranslator, FactorGenerator, AccessGate, TemplateDecorator, SchedulerBinder or LifeHook.
    """
    out.show(service.all("v1", "plugins", "list", plugin_type), render.plugins)


@click.command()
@click.option("--job", "jobID", metavar="ID", help="Only of this job.")
@click.option("--plugin", metavar="KEY", help="Only to this LifeHook.")
@click.option("--status", help="Only those that stand so.")
@with_service
def deliveries(service: Client, out: Output, **filters: str | None) -> None:
    """List what LifeHooks were told, and how it went."""
    given = {name: value for name, value in filters.items() if value is not None}
    out.show(service.all("v1", "hooks", "deliveries", params=given), render.deliveries)
