"""`pipeline flow run` starts a run, `pipeline run ID` shows one, `pipeline runs` lists, stops, retries and marks them."""

from __future__ import annotations

from typing import Any

import click

from pipeline_cli import logs as lines
from pipeline_cli import render, render_flows
from pipeline_cli.client import ServiceClient
from pipeline_cli.group import Entry, LazyGroup
from pipeline_cli.options import Pair, Visible, with_service
from pipeline_cli.output import Output
from pipeline_cli.run_progress import watch as watched
from pipeline_cli.simple import change_command, show_command, show_page, with_paging

COMMANDS = {
    "list": Entry("pipeline_cli.runs:list_runs", "List the runs of all flows, the newest first."),
    "stop": Entry("pipeline_cli.runs:stop", "Stop a run and the jobs of its tasks."),
    "retry": Entry("pipeline_cli.runs:retry", "Run again what failed in a run, and what follows it."),
    "dismiss": Entry("pipeline_cli.runs:dismiss", "Let the next scheduled run go on as if this one had succeeded."),
    "mark": Entry("pipeline_cli.runs:mark", "Let a failed or waiting task count as succeeded or skipped."),
    "delete": Entry("pipeline_cli.runs:delete", "Delete a run that has ended, or end a debug pod."),
    "logs": Entry("pipeline_cli.runs:logs", "Print what the tasks of a run wrote."),
    "metrics": Entry("pipeline_cli.runs:metrics", "Show the metrics that the tasks of a run left."),
}

runs = LazyGroup(
    "runs",
    entries=COMMANDS,
    help="List runs of all flows; stop, retry, mark or delete one.",
    epilog="`pipeline flow run NAME` starts a run, `pipeline run ID` shows one.",
)

run_id_argument = click.argument("run_id", metavar="ID")
reason_option = click.option("--reason", help="Why; it is kept in the run's history.")
WATCH = click.option(
    "--watch", "-w", is_flag=True, help="Show the tasks until the run has ended; exit 1 unless it succeeded."
)
FILTERS = (
    click.option("--state", help="waiting, blocked, running, succeeded, failed, stopped, expired. Several: a,b."),
    click.option("--trigger", help="manual, schedule, backfill, task, debug. Several: a,b."),
    with_paging("Runs"),
)


def with_filters(function: Any) -> Any:
    for option in reversed(FILTERS):
        function = option(function)
    return function


@click.command("run")
@click.argument("name")
@click.option("--set", "variables", type=Pair(), multiple=True, help="A value for a key of global_env. Repeatable.")
@click.option("--task", help="Only this task, alone.")
@click.option("--debug", is_flag=True, help="With --task: a pod that sleeps in place of the task's command.")
@reason_option
@click.option("--idempotency-key", type=Visible(), help="The same key with the same run again starts nothing.")
@WATCH
@with_service
def start(
    service: ServiceClient,
    out: Output,
    name: str,
    variables: tuple[tuple[str, str], ...],
    task: str | None,
    debug: bool,
    reason: str | None,
    idempotency_key: str | None,
    watch: bool,
) -> None:
    """Start a run of a flow, or of one of its tasks alone."""
    if debug and not task:
        raise click.UsageError("--debug needs --task: the pod is one task's")
    path = ("tasks", task, "debug" if debug else "run") if task else ("run",)
    body: dict[str, Any] = {"variables": dict(variables)} | ({"reason": reason} if reason else {})
    headers = {"Idempotency-Key": idempotency_key} if idempotency_key else None
    started = service.post("v1", "flows", name, *path, body=body, headers=headers).payload
    if watch:
        out.progress(f"{started['runID']} started")
        watched(service, out, started["runID"])
    else:
        out.show(started, lambda payload: [payload["runID"]])


@click.command("run")
@run_id_argument
@WATCH
@with_service
def run(service: ServiceClient, out: Output, run_id: str, watch: bool) -> None:
    """Show one run with its tasks, by the run's ID."""
    if watch:
        watched(service, out, run_id)
    else:
        out.show(service.get("v1", "runs", run_id).payload, render_flows.run)


@click.command("runs")
@click.argument("name")
@with_filters
@with_service
def of_flow(service: ServiceClient, out: Output, name: str, **filters: Any) -> None:
    """List the runs of one flow, the newest first."""
    show_page(service, out, f"flows/{name}/runs", render_flows.runs, "runs", filters)


@click.command("list")
@with_filters
@with_service
def list_runs(service: ServiceClient, out: Output, **filters: Any) -> None:
    """List the runs of all flows, the newest first."""
    show_page(service, out, "runs", render_flows.runs, "runs", filters)


@click.command()
@run_id_argument
@reason_option
@with_service
def stop(service: ServiceClient, out: Output, run_id: str, reason: str | None) -> None:
    """Stop a run and the jobs of its tasks."""
    answer = service.put("v1", "runs", run_id, "stop", body={"reason": reason} if reason else {})
    out.show(answer.envelope, lambda _: [f"{run_id} stopped"])


@click.command()
@run_id_argument
@with_service
def retry(service: ServiceClient, out: Output, run_id: str) -> None:
    """Run again what failed in a run, and what follows it."""
    answer = service.post("v1", "runs", run_id, "retry", body={})
    out.show(answer.envelope, lambda _: [f"{run_id} goes on"])


dismiss = change_command(
    "dismiss",
    "PUT",
    "runs/{}/dismiss",
    "{} dismissed",
    help="Let the next scheduled run go on as if this one had succeeded.",
    metavar="ID",
    body={},
)
delete = change_command(
    "delete",
    "DELETE",
    "runs/{}",
    "{} deleted",
    help="Delete a run that has ended, or end a debug pod.",
    metavar="ID",
)
metrics = show_command(
    "metrics",
    "runs/{}/metrics",
    render.document,
    help="Show the metrics that the tasks of a run left.",
    metavar="ID",
)


@click.command()
@run_id_argument
@click.argument("task")
@click.argument("state", type=click.Choice(["succeeded", "skipped"]))
@reason_option
@with_service
def mark(service: ServiceClient, out: Output, run_id: str, task: str, state: str, reason: str | None) -> None:
    """Let a failed or waiting task count as succeeded or skipped."""
    body = {"mark": state} | ({"reason": reason} if reason else {})
    answer = service.put("v1", "runs", run_id, "tasks", task, body=body)
    out.show(answer.envelope, lambda _: [f"{task} marked as {state}"])


@click.command()
@run_id_argument
@lines.line_options("run")
@click.option("--attempt", type=click.IntRange(min=1), help="Attempt of each task, from 1.  [default: the last]")
@with_service
def logs(service: ServiceClient, out: Output, run_id: str, follow: bool, **filters: Any) -> None:
    """Print what the tasks of a run wrote.

    Lines of several tasks are merged by time and prefixed. They are there after the run has ended, too.
    """
    lines.show(service, out, ("v1", "runs", run_id, "logs"), follow=follow, **filters)
