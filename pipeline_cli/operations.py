"""`pipeline status` and `pipeline secrets`: for who runs the service."""

from __future__ import annotations

import click

from pipeline_cli import render
from pipeline_cli.client import Client
from pipeline_cli.exits import Exit
from pipeline_cli.options import with_service
from pipeline_cli.output import Output


@click.command()
@click.option("--check", is_flag=True, help="Exit 1 when anything calls for somebody to look.")
@with_service
@click.pass_context
def status(context: click.Context, service: Client, out: Output, check: bool) -> None:
    """Show how the service stands, and what is amiss."""
    payload = service.get("v1", "status").payload
    out.show(payload, render.status)
    if check and payload["problems"]:
        context.exit(Exit.JOB_NOT_SUCCEEDED)


@click.group()
def secrets() -> None:
    """Look after the secrets that the service stores."""


@secrets.command()
@with_service
def rotate(service: Client, out: Output) -> None:
    """Encrypt all stored secrets anew, with the first key of PIPELINE_SECRET_KEY.

    Every process must have been started with the new key before the old ones by then.
    """
    out.show(
        service.put("v1", "secrets", "rotate").payload,
        lambda payload: [f"{payload['count']} secrets are encrypted with the first key"],
    )


@secrets.command()
def key() -> None:
    """Print a new key for PIPELINE_SECRET_KEY."""
    # It loads OpenSSL, which `pipeline status` does without.
    from cryptography.fernet import Fernet

    click.echo(Fernet.generate_key().decode())
