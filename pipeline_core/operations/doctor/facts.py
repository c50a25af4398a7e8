"""Facts about an installation, as values. What could not be found out is None, or has its reason in a field `error`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pipeline_core.operations.status import Status


@dataclass(frozen=True, slots=True)
class Clock:
    """How a server answered when it was asked for its time again and again. `ahead_seconds` is how far its clock is certainly
    ahead of this host's (negative: behind), 0 when the difference is less than the answer took; `round_trip_seconds` is the
    quickest answer."""

    ahead_seconds: float
    round_trip_seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class DatabaseFacts:
    """PostgreSQL. `version` is `server_version_num`. `connection_limits` are the numbers of connections that the server, the
    database and the role admit, by what sets them. `up_seconds` is for how long a process of the service has been connected, 0
    when none is. `undecryptable` counts stored secrets that no key decrypts. `admin_error` says why nobody can sign in as the
    admin, `well_known_password` whether everybody can, by the password of development runs."""

    version: int
    version_text: str
    revision: str | None
    clock: Clock
    connection_limits: Mapping[str, int]
    parameters: Mapping[str, str]
    in_recovery: bool
    up_seconds: float = 0.0
    undecryptable: int = 0
    admin_error: str = ""
    well_known_password: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class RedisFacts:
    """Redis, or the server that speaks its protocol. `info` has what the command INFO answers."""

    clock: Clock
    info: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Disk:
    """The file system of a directory, in bytes; `error` says why the directory cannot be used."""

    path: Path
    free: int = 0
    total: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True)
class Library:
    """A package of Python that the service requires; `installed` is its version, None when it is not there."""

    name: str
    required: str
    installed: str | None


@dataclass(frozen=True, kw_only=True)
class Facts:
    """All of it. `database` and `redis` are None when they cannot be used, for the reason in their `…_error`; `status` is None
    then too, and `disk` when nothing is kept on this host. `cluster_error` says why this host cannot use the cluster.
    `wrong_libraries` are those that do not fit."""

    version: str
    wrong_libraries: tuple[Library, ...] = ()
    disk: Disk | None = None
    database: DatabaseFacts | None = None
    database_error: str = ""
    redis: RedisFacts | None = None
    redis_error: str = ""
    status: Status | None = None
    cluster_error: str = ""
    unknown_variables: tuple[str, ...] = ()
    other_processes: int = 0
    """How many processes with connections to the database run beside the workers: the API's, beat, the watcher."""

    @property
    def versions(self) -> dict[str, str]:
        """The versions of the service, of the database's schema and of the servers, as far as they are known."""
        found = {"pipeline": self.version}
        if self.database:
            found |= {"schema": self.database.revision or "none", "PostgreSQL": self.database.version_text}
        if self.redis:
            name = "Valkey" if "valkey_version" in self.redis.info else "Redis"
            found[name] = self.redis.info.get("valkey_version") or self.redis.info.get("redis_version", "unknown")
        return found
