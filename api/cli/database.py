"""`pipeline database`."""

from __future__ import annotations

import click


@click.group()
def database() -> None:
    """Look after the service's database."""


@database.command()
def upgrade() -> None:
    """Bring the database at PIPELINE_DATABASE_URL to this version's schema."""
    from pipeline_core.database import migrate
    from pipeline_core.errors import PipelineError

    try:
        migrate.upgrade()
    except PipelineError as error:
        raise click.ClickException(error.message) from error
