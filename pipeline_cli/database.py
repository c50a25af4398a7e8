"""`pipeline database`."""

from __future__ import annotations

import click
from sqlalchemy.exc import DBAPIError

from pipeline_cli.exits import ServiceUnavailable
from pipeline_core.database import migrate, revisions
from pipeline_core.errors import ConfigurationError
from pipeline_core.settings import settings


@click.group()
def database() -> None:
    """Manage the service's database."""


@database.command()
def upgrade() -> None:
    """Migrate the database at PIPELINE_DATABASE_URL to this version's schema, unless it has a later version's."""
    try:
        url = settings().database_url
    except ConfigurationError as error:
        raise click.UsageError(error.message) from error
    if not url:
        raise click.UsageError("PIPELINE_DATABASE_URL is not set; `pipeline up` looks after its own database itself")
    try:
        if revisions.is_newer(migrate.revision_of(url)):
            return click.echo("The schema is that of a later version, and stays so.", err=True)
        migrate.upgrade(url)
    except ConfigurationError as error:
        raise click.UsageError(error.message) from error
    except DBAPIError as error:
        raise ServiceUnavailable(f"the database did not do it: {str(error.orig).strip()}") from error
