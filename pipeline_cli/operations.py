"""`pipeline status`, `pipeline audit` and `pipeline secrets`: for operators of the service."""

from __future__ import annotations

from typing import Any

import click

from pipeline_cli import render
from pipeline_cli.client import ServiceClient
from pipeline_cli.exits import Exit
from pipeline_cli.options import with_service
from pipeline_cli.output import Output
from pipeline_cli.simple import show_page, with_paging


@click.command()
@click.option("--check", is_flag=True, help="Exit 1 when anything calls for somebody to look.")
@with_service
@click.pass_context
def status(context: click.Context, service: ServiceClient, out: Output, check: bool) -> None:
    """Show the state of the service, and its problems."""
    payload = service.get("v1", "status").payload
    out.show(payload, render.status)
    if check and payload["problems"]:
        context.exit(Exit.JOB_NOT_SUCCEEDED)


@click.command()
@with_paging("Entries")
@with_service
def audit(service: ServiceClient, out: Output, **page: Any) -> None:
    """List who changed what, the newest first.

    For the admin alone. `-o json` also has what was there before and after each change.
    """
    show_page(service, out, "audit", render.audit, "entries", page)


@click.group()
def secrets() -> None:
    """Manage the keys of the secrets that the service stores."""


@secrets.command()
@with_service
def rotate(service: ServiceClient, out: Output) -> None:
    """Re-encrypt all stored secrets with the first key of PIPELINE_SECRET_KEY.

    Before, every process must have been restarted with the new key in front of the old ones.
    """
    out.show(
        service.put("v1", "secrets", "rotate").payload,
        lambda payload: [f"{payload['count']} secrets are encrypted with the first key"],
    )


@secrets.command()
def key() -> None:
    """Print a new key for PIPELINE_SECRET_KEY."""
    # Imported here since it loads OpenSSL, which `pipeline status` does not need.
    from cryptography.fernet import Fernet

    click.echo(Fernet.generate_key().decode())
