"""`pipeline submit` and `pipeline explain`, which take a job's file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from pipeline_cli import render_plan
from pipeline_cli.client import ServiceClient
from pipeline_cli.exits import BadFile
from pipeline_cli.manifest import documents, submit_body
from pipeline_cli.options import Pair, Visible, with_service
from pipeline_cli.output import Output
from pipeline_cli.progress import wait_for


def with_job_file(function: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a command the argument FILE and the options that complete or override it."""
    for decorate in (
        click.option("--namespace", help="Namespace, where the job itself names none."),
        click.option(
            "--header",
            "-H",
            type=Pair(),
            multiple=True,
            help="Adds to the header that selectors match. Repeatable.",
        ),
        click.option("--name", help="Name of the job.  [default: metadata.name]"),
        click.option("--user", help="Whose job it is.  [default: the token's user]"),
        click.argument("file", type=click.Path(allow_dash=True, dir_okay=False)),
    ):
        function = decorate(function)
    return function


def read(service: ServiceClient, file: str, user: str | None, **given: Any) -> dict[str, Any]:
    """The body of a submission of the job in `file`. Asks the service for the token's user if neither the file nor `user`
    says whose job it is. Raises BadFile."""
    found = documents(file)
    if len(found) > 1:
        raise BadFile(f"{file} holds {len(found)} documents; a job is one")
    body = submit_body(found[0], user=user, **given)
    return body if body.get("userID") else {**body, "userID": token_user(service)}


def token_user(service: ServiceClient) -> str:
    """The user that the token is for; `admin` for the admin's password."""
    return str(service.get("v1", "whoami").payload["forwho"])


@click.command()
@with_job_file
@click.option(
    "--wait", is_flag=True, help="Show the job's progress until it has ended, and exit 1 unless it succeeded."
)
@click.option(
    "--idempotency-key",
    type=Visible(),
    metavar="KEY",
    help="The same key and job again submit nothing new (for 24 hours).",
)
@with_service
def submit(
    service: ServiceClient, out: Output, file: str, wait: bool, idempotency_key: str | None, **given: Any
) -> None:
    """Submit a job from a YAML or JSON file.

    FILE (- for standard input) is a whole submission, {userID, jobName, jobKind, header, job}, or just the job, such as
    a TFJob or a TaskSet.
    """
    headers = {"Idempotency-Key": idempotency_key} if idempotency_key else None
    accepted = service.post("v1", "job", body=read(service, file, **given), headers=headers).payload
    if wait:
        out.progress(f"{accepted['jobID']} submitted")
        wait_for(service, out, accepted["jobID"])
    else:
        out.show(accepted, lambda payload: [payload["jobID"]])


@click.command()
@with_job_file
@with_service
def explain(service: ServiceClient, out: Output, file: str, **given: Any) -> None:
    """Show which plugins would be called for a job, without submitting it.

    For each stage the plugins that would be called, in order, and for each selector the value of every condition. No
    plugin is called.
    """
    out.show(service.post("v1", "job", "explain", body=read(service, file, **given)).payload, render_plan.plan)
