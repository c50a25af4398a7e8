"""`pipeline database`."""

from __future__ import annotations

import click

from api.cli.exits import Unavailable


@click.group()
def database() -> None:
    """Look after the service's database."""


@database.command()
def upgrade() -> None:
    """Bring the database at PIPELINE_DATABASE_URL to this version's schema."""
    from sqlalchemy.exc import OperationalError

    from pipeline_core.database import migrate
    from pipeline_core.errors import ConfigurationError
    from pipeline_core.settings import settings

    try:
        url = settings().database_url
    except ConfigurationError as error:
        raise click.UsageError(error.message) from error
    if not url:
        raise click.UsageError("PIPELINE_DATABASE_URL is not set; `pipeline up` looks after its own database itself")
    try:
        migrate.upgrade(url)
    except OperationalError as error:
        raise Unavailable(f"the database did not do it: {str(error.orig).strip()}") from error
