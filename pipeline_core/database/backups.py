"""Backups of the database, made and restored by PostgreSQL's own programs `pg_dump` and `pg_restore`.

They must not be older than the server. Of several, the oldest that fits is used: what a newer `pg_dump` writes, an older server
may not understand.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import psycopg2
from psycopg2.extensions import make_dsn

from pipeline_core.database import migrate, revisions
from pipeline_core.database.urls import connection_parameters
from pipeline_core.errors import ConfigurationError, Conflict, PipelineError

INSTALLED = "/usr/lib/postgresql/*/bin"
"""Where Debian has the programs of each version."""
OWN_TABLES = "SELECT count(*) FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
OTHERS = (
    "SELECT count(*) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name = 'pipeline'"
)


class BackupFailed(PipelineError):
    """PostgreSQL's program did not do it."""


def back_up(url: str, file: Path, more_folders: Iterable[Path] = ()) -> None:
    """Write the database at `url`, as it is at this moment, into a new file that its owner alone can read.

    `more_folders` are searched for `pg_dump` too. Raises ConfigurationError when there is none that fits, Conflict when the
    file exists, BackupFailed, and psycopg2.OperationalError when the database is away.
    """
    if file.exists():
        raise Conflict(f"{file} exists already; name another file")
    program = find("pg_dump", _server_version(url), more_folders)
    draft = file.with_name(file.name + ".part")
    try:
        draft.touch(mode=0o600, exist_ok=True)
        options = ("--format=custom", "--no-owner", "--no-privileges", f"--file={draft}")
        _run(program, url, *options)
        draft.rename(file)
    except OSError as error:
        raise BackupFailed(f"{file} cannot be written: {error.strerror}") from error
    finally:
        draft.unlink(missing_ok=True)


def restore(url: str, file: Path, *, replace: bool = False, more_folders: Iterable[Path] = ()) -> str | None:
    """Restore a backup into the database at `url`, and bring it to this version's schema: all of it or nothing.

    Unless `replace` is set, the database must be empty. Returns the revision of the schema if a later version made the backup: it
    stays at that. Raises Conflict when the database is not empty, or processes of the service use it, and what `back_up` raises.
    """
    _check_free(url, replace)
    program = find("pg_restore", _server_version(url), more_folders)
    options = ("--single-transaction", "--exit-on-error", "--no-owner", "--no-privileges")
    _run(program, url, *options, *(("--clean", "--if-exists") if replace else ()), str(file))
    revision = migrate.revision_of(url)
    if revision is None:
        raise BackupFailed(f"{file} is a backup of another program's database: it has no schema of this service")
    is_newer = revisions.is_newer(revision)
    if not is_newer:
        migrate.upgrade(url)
    with _connected(url) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        # Without statistics the first plans would be bad ones.
        cursor.execute("SET statement_timeout = 0")
        cursor.execute("ANALYZE")
    return revision if is_newer else None


def find(name: str, server: int, more_folders: Iterable[Path] = ()) -> Path:
    """The program of that name that fits a server of this major version.

    Raises ConfigurationError with what was found and what would be right.
    """
    folders = [*os.get_exec_path(), *map(str, sorted(Path("/").glob(INSTALLED[1:]))), *map(str, more_folders)]
    paths = dict.fromkeys(Path(path) for folder in folders if (path := shutil.which(name, path=folder)))
    found = {path: version for path in paths if (version := _version(path))}
    return choose(name, found, server)


def choose(name: str, found: Mapping[Path, int], server: int) -> Path:
    """Of programs with their major versions the oldest that is not older than the server. Raises ConfigurationError."""
    fitting = [path for path, version in found.items() if version >= server]
    if fitting:
        return min(fitting, key=lambda path: found[path])
    there = ", ".join(f"{path} of {version}" for path, version in found.items()) or "none"
    raise ConfigurationError(
        f"{name} of PostgreSQL {server} or newer is needed, as the server has; found: {there}. Install the package "
        f"postgresql-client-{server}, or put the folder of the program on PATH"
    )


def major(text: str) -> int:
    """The major version in what a program of PostgreSQL answers to `--version`; 0 when there is none in it."""
    match = re.search(r"\(PostgreSQL\) (\d+)", text)
    return int(match[1]) if match else 0


def _version(program: Path) -> int:
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    except OSError:
        return 0
    return major(done.stdout)


def _server_version(url: str) -> int:
    with _connected(url) as connection:
        return int(connection.server_version) // 10000


def _connected(url: str) -> closing[psycopg2.extensions.connection]:
    return closing(psycopg2.connect(make_dsn(**connection_parameters(url))))


def _check_free(url: str, replace: bool) -> None:
    with _connected(url) as connection, connection.cursor() as cursor:
        if _count(cursor, OTHERS):
            raise Conflict("processes of the service use this database: stop all of them first")
        if not replace and (tables := _count(cursor, OWN_TABLES)):
            raise Conflict(f"this database has {tables} tables already; --replace deletes what the backup has, too")


def _count(cursor: psycopg2.extensions.cursor, query: str) -> int:
    cursor.execute(query)
    row = cursor.fetchone()
    return int(row[0]) if row else 0


def _run(program: Path, url: str, *arguments: str) -> None:
    """Run it on the database. The password is in its environment: others on the machine can read command lines."""
    parameters = connection_parameters(url)
    password = {"PGPASSWORD": parameters.pop("password")} if "password" in parameters else {}
    command: Sequence[str | Path] = [program, f"--dbname={make_dsn(**parameters)}", "--no-password", *arguments]
    done = subprocess.run(command, env={**os.environ, **password}, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BackupFailed(done.stderr.strip() or f"{program} ended with {done.returncode}")
