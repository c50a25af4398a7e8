"""`pipeline backup` and `pipeline restore`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import psycopg2
from sqlalchemy.exc import DBAPIError

from pipeline_cli.exits import Exit, ServiceUnavailable
from pipeline_core.database import backups
from pipeline_core.errors import ConfigurationError, Conflict
from pipeline_core.settings import settings
from pipeline_up.embedded import postgres


class Failed(click.ClickException):
    """The backup was not made, or not restored."""

    exit_code = Exit.REFUSED


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
def backup(file: Path) -> None:
    """Write a backup of the service's database into a new file."""
    with explained():
        backups.back_up(database_url(), file, embedded_programs())
    click.echo(f"{file}: {file.stat().st_size} bytes. Keep the secret key too, in another place.", err=True)


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--replace", is_flag=True, help="Also into a database that is not empty: what the backup has is deleted.")
def restore(file: Path, replace: bool) -> None:
    """Restore a backup into an empty database, and upgrade its schema."""
    with explained():
        newer = backups.restore(database_url(), file, replace=replace, more_folders=embedded_programs())
    if newer:
        click.echo(f"The backup is of a later version: its schema is at {newer}, and stays so.", err=True)


def database_url() -> str:
    """The database that is configured. Raises UsageError when there is none."""
    if not (url := settings().database_url):
        raise click.UsageError(
            "PIPELINE_DATABASE_URL is not set; the data directory of `pipeline up` is backed up as a whole while it is stopped"
        )
    return url


def embedded_programs() -> list[Path]:
    """The folder of the embedded PostgreSQL's programs, if it is installed."""
    try:
        return [postgres.programs()]
    except ConfigurationError:
        return []


@contextmanager
def explained() -> Iterator[None]:
    """Raise the command's own errors for those of the database and its programs."""
    try:
        yield
    except ConfigurationError as error:
        raise click.UsageError(error.message) from error
    except (Conflict, backups.BackupFailed) as error:
        raise Failed(error.message) from error
    except (psycopg2.OperationalError, DBAPIError) as error:
        raise ServiceUnavailable(f"the database did not do it: {str(error).strip()}") from error
