"""`pipeline jobs`, `pipeline job` and the commands for one job."""

from __future__ import annotations

from typing import Any

import click

from pipeline_cli import render
from pipeline_cli.client import ServiceClient
from pipeline_cli.options import Instant, with_service
from pipeline_cli.output import Output
from pipeline_cli.progress import wait_for
from pipeline_cli.simple import show_command, with_paging

job_id_argument = click.argument("job_id", metavar="ID")
reason_option = click.option("--reason", help="Why; it is kept in the job's history.")


@click.command()
@click.option("--user", "userID", help="Only jobs of this user.")
@click.option("--kind", help="Only jobs of this kind. Several: a,b.")
@click.option("--state", help="waiting, suspended, running, succeeded, failed, stopped; completed for the last three.")
@click.option("--stage", help="Only jobs at this stage. Several: a,b.")
@click.option("--suspended-by", "suspendedBy", metavar="KEY", help="Only jobs that this gate suspended.")
@click.option("--name", help="Only jobs whose names begin with this.")
@click.option(
    "--since", "startAt", type=Instant(), help="Submitted then or later: unix seconds, RFC 3339, or 30m, 2h, 7d."
)
@click.option("--until", "endAt", type=Instant(), help="Submitted then or earlier.")
@click.option("--order", type=click.Choice(["asc", "desc"]), help="By submission.  [default: desc]")
@with_paging("Jobs")
@click.option("--cursor", help="Cursor that the previous page printed; stays fast in long lists.")
@click.option("--count", "only_count", is_flag=True, help="Print only how many there are.")
@with_service
def jobs(service: ServiceClient, out: Output, only_count: bool, **filters: Any) -> None:
    """List or count jobs."""
    given = {name: value for name, value in filters.items() if value is not None}
    if only_count:
        if paging := sorted(given.keys() & {"order", "pageNumber", "pageSize", "cursor"}):
            raise click.UsageError(f"--count counts all pages: {', '.join(paging)} means nothing beside it")
        out.show(service.get("v1", "job", "count", params=given).payload, lambda payload: [str(payload["count"])])
        return
    answer = service.get("v1", "job", "list", params=given)
    out.show(answer.payload, render.jobs)
    if cursor := answer.headers.get("X-Next-Cursor"):
        out.note(f"{total(answer.headers)}; the next page: --cursor {cursor}")


def total(headers: Any) -> str:
    more = "more than " if headers.get("X-Total-Count-Exact") == "false" else ""
    return f"{more}{headers.get('X-Total-Count', 'more')} jobs"


job = show_command("job", "job/detail/{}", render.job, help="Show a job with its tasks and replicas.", metavar="ID")
config = show_command("config", "job/config/{}", render.document, help="Show a job as it was submitted.", metavar="ID")
taskset = show_command(
    "taskset", "job/taskset/{}", render.document, help="Show the TaskSet that a job became.", metavar="ID"
)


@click.command()
@job_id_argument
@with_service
def trail(service: ServiceClient, out: Output, job_id: str) -> None:
    """Show every plugin call of a job."""
    out.show(service.all("v1", "job", "trail", job_id), render.trail)


@click.command()
@job_id_argument
@with_service
def events(service: ServiceClient, out: Output, job_id: str) -> None:
    """Show every state change of a job, and its deliveries."""
    out.show(service.all("v1", "job", "events", job_id), render.events)


@click.command()
@job_id_argument
@with_service
def wait(service: ServiceClient, out: Output, job_id: str) -> None:
    """Show a job's progress until it has ended.

    Exits 1 unless it succeeded.
    """
    wait_for(service, out, job_id)


@click.command()
@job_id_argument
@reason_option
@with_service
def stop(service: ServiceClient, out: Output, job_id: str, reason: str | None) -> None:
    """Stop a job."""
    body = {"reason": reason} if reason else {}
    answer = service.put("v1", "job", "stop", job_id, body=body)
    out.show(answer.envelope, lambda _: [f"{job_id} stopped"])


@click.command()
@job_id_argument
@click.option("--gate", metavar="KEY", help="Only if this gate suspended it.")
@reason_option
@with_service
def resume(service: ServiceClient, out: Output, job_id: str, gate: str | None, reason: str | None) -> None:
    """Resume a suspended job."""
    body = {name: value for name, value in {"gate": gate, "reason": reason}.items() if value}
    answer = service.put("v1", "job", "resume", job_id, body=body)
    out.show(answer.envelope, lambda _: [f"{job_id} resumed"])


@click.command()
@job_id_argument
@with_service
def retry(service: ServiceClient, out: Output, job_id: str) -> None:
    """Submit a failed or stopped job again, as a new job."""
    out.show(service.post("v1", "job", "retry", job_id, body={}).payload, lambda payload: [payload["jobID"]])
