"""`pipeline plugins`, `pipeline plugin`, and `pipeline deliveries` of events to LifeHooks and `pipeline redeliver`."""

from __future__ import annotations

import json

import click

from pipeline_cli import render, render_shadows
from pipeline_cli.client import ServiceClient
from pipeline_cli.group import Entry, LazyGroup
from pipeline_cli.options import Instant, with_service
from pipeline_cli.output import Output
from pipeline_cli.simple import show_command


@click.command()
@click.argument("plugin_type", metavar="[TYPE]", default="all")
@with_service
def plugins(service: ServiceClient, out: Output, plugin_type: str) -> None:
    """List plugins in running order.

    TYPE is TemplateTranslator, FactorGenerator, AccessGate, TemplateDecorator, SchedulerBinder or LifeHook.
    """
    out.show(service.all("v1", "plugins", "list", plugin_type), render.plugins)


plugin = LazyGroup(
    "plugin",
    entries={
        "new": Entry("pipeline_cli.new:new", "Write a new plugin into the directory NAME."),
        "check": Entry("pipeline_cli.check:check", "Check a running plugin as the service would call it."),
        "try": Entry(
            "pipeline_cli.try_plugin:try_plugin",
            "Send a running plugin the packets of past jobs, and compare its answers with what was decided then.",
        ),
        "packet": Entry("pipeline_cli.plugins:packet", "Print the packet that a job's plugins of one stage were sent."),
        "show": Entry("pipeline_cli.plugins:show", "Show a plugin with the state of its circuit and its last calls."),
        "shadow": Entry("pipeline_cli.plugins:shadow", "Show what a shadow answered, beside what was decided."),
        "promote": Entry("pipeline_cli.plugins:promote", "Let a shadow take the place of the plugin that it names."),
        "order": Entry("pipeline_cli.plugins:order", "Let a plugin run before another one of its type."),
    },
    help="Write, check, try, show and promote plugins, and change their order.",
)

show = show_command(
    "show",
    "plugins/detail/{}",
    render.plugin,
    help="Show a plugin with the state of its circuit and its last calls.",
    metavar="KEY",
)


@click.command()
@click.argument("job_id", metavar="JOB")
@click.argument("stage", metavar="STAGE")
@with_service
def packet(service: ServiceClient, out: Output, job_id: str, stage: str) -> None:
    """Print the packet that a job's plugins of one stage were sent.

    STAGE is translate, factors, gates, decorate or bind. Values of variables whose names look secret are masked.
    """
    document = service.get("v1", "job", "packet", job_id, params={"stage": stage}).payload
    out.show(document, lambda shown: [json.dumps(shown, indent=2)])


@click.command()
@click.argument("key", metavar="KEY")
@click.option(
    "--since", type=Instant(), help="Only answers given then or later: unix seconds, RFC 3339, or 30m, 2h, 7d."
)
@click.option("--most", type=click.IntRange(min=1), help="Show so many disagreements at most, and as many errors.")
@with_service
def shadow(service: ServiceClient, out: Output, key: str, since: int | None, most: int | None) -> None:
    """Show what a shadow answered, beside what was decided.

    How often both agreed, the latest disagreements and errors, and how long both took.
    """
    params = {"since": since, "most": most}
    out.show(service.get("v1", "plugins", "shadow", key, params=params).payload, render_shadows.report)


@click.command()
@click.argument("key", metavar="KEY")
@with_service
def promote(service: ServiceClient, out: Output, key: str) -> None:
    """Let a shadow take the place of the plugin that it names.

    That one becomes its shadow; promoting that one takes it back.
    """
    payload = service.put("v1", "plugins", "promote", key).payload
    out.show(payload, lambda shown: [f"{key} is active; {shown['replaced']['key']} is its shadow"])


@click.command()
@click.argument("key", metavar="KEY")
@click.option("--before", metavar="KEY", required=True, help="The plugin of the same type that is to run after it.")
@with_service
def order(service: ServiceClient, out: Output, key: str, before: str) -> None:
    """Let a plugin run before another one of its type.

    Nothing changes if it does already. Else it moves to just before the other; all others keep their order.
    """
    body = {"beforeKey": key, "afterKey": before, "pluginType": key.partition(".")[0]}
    answer = service.put("v1", "plugins", "sequence", body=body)
    out.show(answer.envelope, lambda _: [f"{key} runs before {before}"])


@click.command()
@click.option("--job", "jobID", metavar="ID", help="Only of this job.")
@click.option("--plugin", metavar="KEY", help="Only to this LifeHook.")
@click.option("--status", help="Only those with this status.")
@with_service
def deliveries(service: ServiceClient, out: Output, **filters: str | None) -> None:
    """List deliveries of events to LifeHooks, and their status."""
    given = {name: value for name, value in filters.items() if value is not None}
    out.show(service.all("v1", "hooks", "deliveries", params=given), render.deliveries)


@click.command()
@click.argument("delivery_ids", metavar="[ID]...", nargs=-1)
@click.option("--plugin", metavar="KEY", help="All to this LifeHook that were given up.")
@with_service
def redeliver(service: ServiceClient, out: Output, delivery_ids: tuple[str, ...], plugin: str | None) -> None:
    """Send deliveries again that were given up.

    They are those with the status `exhausted` or `exception`; `pipeline deliveries` has their IDs.
    """
    if bool(delivery_ids) == bool(plugin):
        raise click.UsageError("give either IDs of deliveries, or --plugin for all of a LifeHook")
    if plugin:
        payload = service.post("v1", "hooks", "redeliver", params={"plugin": plugin}).payload
        out.show(payload, lambda shown: [f"{shown['count']} deliveries to {plugin} are sent again"])
        return
    for delivery_id in delivery_ids:
        service.post("v1", "hooks", "redeliver", delivery_id)
        out.progress(f"{delivery_id} is sent again")
    if out.json:
        out.show(list(delivery_ids), lambda _: [])
