"""`pipeline token`."""

from __future__ import annotations

from typing import Any

import click

from pipeline_cli import render
from pipeline_cli.client import ServiceClient
from pipeline_cli.options import Expiry, with_service
from pipeline_cli.output import Output
from pipeline_cli.simple import change_command, list_command


@click.group()
def token() -> None:
    """Create, list and delete tokens."""


@token.command()
@click.argument("privileges", metavar="PRIVILEGE...", nargs=-1, required=True)
@click.option("--for", "forwho", metavar="WHO", required=True, help="Whose token it is.")
@click.option("--note", help="What it is for.")
@click.option("--own-only", "ownOnly", is_flag=True, help="Only for jobs whose user is WHO.")
@click.option(
    "--expires", "expiresAt", type=Expiry(), metavar="TIME", help="RFC 3339, or in 30m, 12h, 7d.  [default: never]"
)
@with_service
def create(service: ServiceClient, out: Output, privileges: tuple[str, ...], **fields: Any) -> None:
    """Create a token and print it; it cannot be shown again.

    PRIVILEGE is read_job, write_job, approve_job, read_feature, write_feature, read_token or write_token.
    """
    given = {name: value for name, value in fields.items() if value}
    made = service.post("v1", "tokens", body={"privileges": list(privileges), **given}).payload
    out.show(made, lambda payload: [payload["token"]])
    if not out.json:
        out.note(f"its ID is {made['id']}; the token is not shown again")


for command in (
    list_command("list", "tokens", render.tokens, help="List tokens, without their values."),
    change_command(
        "delete", "DELETE", "tokens/{}", "{} deleted", help="Delete a token; it stops working at once.", metavar="ID"
    ),
):
    token.add_command(command)
