"""Asks the servers, the host and the cluster for the facts about an installation. Nothing is changed anywhere."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from redis.exceptions import RedisError
from sqlalchemy import Connection, select, text
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.orm import Session

from pipeline_core.auth import password, tokens
from pipeline_core.clusters.base import ClusterUnavailable
from pipeline_core.clusters.factory import cluster
from pipeline_core.common.encryption import decrypt
from pipeline_core.common.redis import PATIENT_SECONDS, connect
from pipeline_core.database import revisions
from pipeline_core.database.engine import engine
from pipeline_core.database.models import Feature
from pipeline_core.errors import ConfigurationError, PipelineError
from pipeline_core.operations import status
from pipeline_core.operations.doctor.facts import Clock, DatabaseFacts, Disk, Facts, Library, RedisFacts
from pipeline_core.operations.doctor.settings_rules import unknown
from pipeline_core.operations.status import Queues
from pipeline_core.settings import Settings, settings

PACKAGE = "pipeline-service"
REQUIRED_EXTRAS = ("", "server")
"""What a process of the service cannot do without; of other extras, what is installed has to fit."""
OPTIONAL_EXTRAS = ("cli", "embedded", "flower", "otel")
TRIES = 10
"""How often a server is asked for its time: the quickest answer counts."""

_LIMITS = text(
    "SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int,"
    " (SELECT datconnlimit FROM pg_database WHERE datname = current_database()),"
    " (SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user)"
)
_PARAMETERS = ("fsync", "full_page_writes", "synchronous_commit", "default_transaction_read_only")
_CONNECTED_FOR = text(
    # Processes of the service keep their connections.
    "SELECT extract(epoch FROM now() - min(backend_start)) FROM pg_stat_activity"
    " WHERE datname = current_database() AND application_name = 'pipeline' AND pid <> pg_backend_pid()"
)


def gather(read_queues: Callable[[], Queues], *, other_processes: int) -> Facts:
    """All facts about the installation that the settings of this process name. `read_queues` may raise RedisError;
    `other_processes` is how many processes connect to the database beside the workers. Raises ConfigurationError when a setting
    is invalid."""
    database, database_error = _database()
    redis, redis_error = _redis()
    usable = database is not None and (database.revision == revisions.head() or revisions.is_newer(database.revision))
    return Facts(
        version=version(PACKAGE),
        wrong_libraries=tuple(_wrong_libraries()),
        disk=disk_of(path) if (path := kept_in(settings())) else None,
        database=database,
        database_error=database_error,
        redis=redis,
        redis_error=redis_error,
        status=status.read(read_queues) if usable else None,
        cluster_error=_cluster_error(),
        unknown_variables=unknown(os.environ),
        other_processes=other_processes,
    )


def measure(server_time: Callable[[], float]) -> Clock:
    """The clock of a server: `server_time` asks it for its time, in seconds since 1970."""
    offsets, round_trips = [], []
    for _ in range(TRIES):
        before = time.time()
        there = server_time()
        after = time.time()
        # Between the two, whenever the server read it, unless its clock differs.
        offsets.append(there - after if there > after else min(there - before, 0.0))
        round_trips.append(after - before)
    return Clock(min(offsets, key=abs), min(round_trips))


def _database() -> tuple[DatabaseFacts | None, str]:
    try:
        with engine().connect() as connection:
            return _ask_database(connection), ""
    except (SQLAlchemyError, ArgumentError) as error:
        return None, " ".join(str(getattr(error, "orig", None) or error).split())
    except PipelineError as error:
        return None, error.message


def _ask_database(connection: Connection) -> DatabaseFacts:
    number = int(connection.execute(text("SHOW server_version_num")).scalar_one())
    revision = revisions.current(connection)
    migrated = revision == revisions.head() or revisions.is_newer(revision)
    server, database, role = connection.execute(_LIMITS).one()
    limits = {
        "max_connections": server,
        "CONNECTION LIMIT of the database": database,
        "CONNECTION LIMIT of the role": role,
    }
    parameters = {name: str(connection.execute(text(f"SHOW {name}")).scalar_one()) for name in _PARAMETERS}
    now = text("SELECT extract(epoch FROM clock_timestamp())::float8")
    return DatabaseFacts(
        version=number,
        version_text=str(connection.execute(text("SHOW server_version")).scalar_one()),
        revision=revision,
        clock=measure(lambda: float(connection.execute(now).scalar_one())),
        # -1: no limit.
        connection_limits={what: limit for what, limit in limits.items() if limit >= 0},
        parameters=parameters,
        in_recovery=bool(connection.execute(text("SELECT pg_is_in_recovery()")).scalar_one()),
        up_seconds=float(connection.execute(_CONNECTED_FOR).scalar_one() or 0.0),
        **(_ask_tables(Session(connection)) if migrated else {}),
    )


def _ask_tables(session: Session) -> dict[str, Any]:
    error = ""
    try:
        tokens.check_startup(session)
    except ConfigurationError as wrong:
        error = wrong.message
    stored = tokens.stored_password(session) is not None
    return {
        "undecryptable": sum(not _is_decryptable(secret) for secret in _secrets(session)),
        "admin_error": error,
        "well_known_password": not stored and password.initial_password() == password.DEVELOPMENT_PASSWORD,
    }


def _secrets(session: Session) -> Iterator[str]:
    for row in session.execute(select(Feature.authorization, Feature.signing_secret)):
        yield from filter(None, row)


def _is_decryptable(secret: str) -> bool:
    try:
        decrypt(secret)
    except ConfigurationError:
        return False
    return True


def _redis() -> tuple[RedisFacts | None, str]:
    url = settings().redis_url
    if not url:
        return None, "PIPELINE_REDIS_URL is not set"
    try:
        with connect(url, PATIENT_SECONDS) as client:

            def server_time() -> float:
                seconds, microseconds = client.time()
                return float(seconds) + float(microseconds) / 1e6

            client.ping()
            clock = measure(server_time)
            return RedisFacts(clock=clock, info={name: str(value) for name, value in client.info().items()}), ""
    except (RedisError, ValueError) as error:
        return None, f"it does not answer: {error}"


def kept_in(chosen: Settings) -> Path | None:
    """The directory on this host in which jobs leave files; None when they leave none here."""
    match chosen.cluster_driver:
        case "local":
            return chosen.data_dir.absolute()
        case "kubernetes" if not chosen.archive_url:
            return chosen.data_dir.absolute()
        case "kubernetes" if "://" not in chosen.archive_url:
            return Path(chosen.archive_url).absolute()
        case _:
            return None


def disk_of(path: Path) -> Disk:
    """The file system of a directory, or of where it would be made."""
    existing = next(parent for parent in (path, *path.parents) if parent.exists())
    if not existing.is_dir():
        return Disk(path, error=f"it cannot be used: {existing} is no directory")
    if not os.access(existing, os.W_OK | os.X_OK):
        return Disk(path, error=f"it cannot be used: this account may not write in {existing}")
    usage = shutil.disk_usage(existing)
    return Disk(path, usage.free, usage.total)


def _cluster_error() -> str:
    try:
        cluster().check()
    except ClusterUnavailable as error:
        return error.message
    return ""


def _wrong_libraries() -> Iterator[Library]:
    for line in requires(PACKAGE) or ():
        requirement = Requirement(line)
        applies = [
            extra
            for extra in (*REQUIRED_EXTRAS, *OPTIONAL_EXTRAS)
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra})
        ]
        if not applies:
            continue
        installed = _installed(requirement.name)
        required = any(extra in REQUIRED_EXTRAS for extra in applies)
        if installed is None and not required:
            continue
        if installed is None or not requirement.specifier.contains(installed, prereleases=True):
            yield Library(requirement.name, str(requirement.specifier), installed)


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
