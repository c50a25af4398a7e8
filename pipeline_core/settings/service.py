"""Settings of the service itself: its servers, its API, its logs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pipeline_core.settings.declaration import (
    boolean,
    choice,
    integer,
    keys,
    named,
    namespaces,
    number,
    path,
    redis_or_sentinels,
    setting,
    url,
    words,
)


@dataclass(frozen=True, kw_only=True)
class ServiceSettings:
    """The service as a whole."""

    data_dir: Path = setting(
        path, Path("pipeline-data"), "Where the embedded servers, the local cluster and the logs keep their files."
    )
    secret_key: str = setting(
        keys,
        "",
        "Key that secrets are encrypted with at rest: 32 bytes as URL-safe base64. `pipeline up` makes one in the data "
        "directory; elsewhere it must be set. Several, separated by commas: the first encrypts, all decrypt.",
        secret=True,
    )
    admin_password: str = setting(
        named("8 to 128 printable ASCII characters, not 24 letters and digits"),
        "",
        "The admin's password; counts only while none is stored in the database.",
        secret=True,
    )
    development: bool = setting(
        boolean,
        False,
        "A development run: the admin's password is `admin` until it is changed. Set by `pipeline up` on a loopback address.",
    )
    namespaces: tuple[str, ...] = setting(
        namespaces, ("default",), "Namespaces that jobs may name; the first is the default."
    )
    projects: tuple[str, ...] = setting(words, ("public",), "Projects, comma-separated, that flows may name.")
    public_url: str = setting(
        url("http", "https"),
        "",
        "The service's URL for users, as `https://pipeline.example`: alerts link to runs there.",
    )


@dataclass(frozen=True, kw_only=True)
class DatabaseSettings:
    """PostgreSQL."""

    database_url: str = setting(
        url("postgresql", "postgresql+psycopg2"),
        "",
        "PostgreSQL, as `postgresql://user:password@host:port/name`. It may name several hosts and have any parameter of "
        "libpq: `postgresql://user:password@one:5432,two:5432/name?target_session_attrs=read-write` leads to the primary. "
        "`pipeline up` starts its own when this is empty.",
        secret=True,
    )
    database_connections: int = setting(
        integer,
        16,
        "Connections to PostgreSQL that each process opens at most, and keeps. A thread needs one only during a transaction.",
        unit="connections",
        least=1,
    )


@dataclass(frozen=True, kw_only=True)
class RedisSettings:
    """Redis, which carries the messages between processes."""

    redis_url: str = setting(
        redis_or_sentinels,
        "",
        "Redis (or a server that speaks its protocol), as `redis://:password@host:port/0`, or its Sentinels, as "
        "`sentinel://:password@one:26379,two:26379,three:26379/0?master=name` (`&sentinel_password=` if they want one); its "
        "`maxmemory-policy` must be `noeviction`. `pipeline up` starts its own when this is empty.",
        secret=True,
    )
    redis_prefix: str = setting(named("any text"), "pipeline:", "What every key in Redis begins with.")
    wake_after_seconds: float = setting(
        number, 10.0, "A step that was published and not claimed for so long is published again.", unit="s"
    )
    wake_queue_limit: int = setting(
        integer, 2000, "Ticks publish nothing while this many messages or more wait in the queues.", unit="messages"
    )


@dataclass(frozen=True, kw_only=True)
class ApiSettings:
    """The REST API."""

    log_followers: int = setting(
        integer,
        16,
        "Log followers that one API process serves at a time, and as many other readers of logs; one user gets at most half.",
        unit="followers",
    )
    event_waiters: int = setting(
        integer,
        128,
        "Readers of the feed that wait in one API process at a time for what comes next; one token's owner gets at most half.",
        unit="readers",
    )
    api_connections: int = setting(
        integer,
        500,
        "Connections that one API process keeps open. One more closes the one that has waited longest for its client, of "
        "the address that has most of these.",
        unit="connections",
        least=1,
    )
    api_connections_per_address: int = setting(
        integer,
        100,
        "Connections of one address (of IPv6: a /64) that one API process keeps open. One more closes the one of that "
        "address that has waited longest for its client. Without effect behind trusted proxies, whose address all have.",
        unit="connections",
        least=1,
    )
    request_head_seconds: float = setting(
        number, 10.0, "How long a client may take to send a request's line and headers.", unit="s"
    )
    request_body_seconds: float = setting(
        number, 60.0, "How long a client may take to send a request's body.", unit="s"
    )
    failed_logins: int = setting(
        integer,
        60,
        "Requests with an invalid token that each API process accepts from one address within a minute. Beyond, it refuses "
        "tokens with which it has not served a request before.",
        unit="requests",
        least=1,
    )
    trusted_proxies: int = setting(
        integer, 0, "How many proxies in front of the API set `X-Forwarded-*`.", unit="proxies"
    )


@dataclass(frozen=True, kw_only=True)
class OperationSettings:
    """Retention, logs and probes of the service."""

    retention_days: float = setting(
        number,
        90.0,
        "How long jobs and runs are kept after they have ended, with all that belongs to them, and how long entries of the feed "
        "that are no events; then they are deleted. 0: forever.",
        unit="days",
    )
    log_days: float = setting(
        number,
        30.0,
        "How long the logs of jobs are kept after their end, if the jobs are; then they are deleted. 0: as long as the jobs.",
        unit="days",
    )
    log_total_bytes: int = setting(
        integer,
        0,
        "How large the logs of all jobs that have ended may be together; beyond it, the logs of the job are deleted that ended "
        "first. 0: no limit.",
        unit="bytes",
    )
    log_limit_bytes: int = setting(
        integer,
        1024**3,
        "How large the log of one run of a container may become, with the time of each line; its last line then says that "
        "nothing more is kept. 0: no limit.",
        unit="bytes",
    )
    otel: bool = setting(
        boolean,
        False,
        "Export traces of jobs and runs by OpenTelemetry, which the extra `otel` installs. Where to, and how, is set by its own "
        "variables, such as `OTEL_EXPORTER_OTLP_ENDPOINT`.",
    )
    task_events: bool = setting(
        boolean, False, "Workers send Celery's task events, which Flower shows. Set by `pipeline up --flower`."
    )
    flower_password: str = setting(
        named("any text"),
        "",
        "Flower's password, for the user `admin`. `pipeline up --flower` makes one in the data directory when this is empty.",
        secret=True,
    )
    liveness_file: str = setting(
        named("a path"),
        "",
        "The liveness file: workers, beat and the watcher touch it at least twice a minute, and a probe checks its age. "
        "Workers and beat do not touch it while Redis is unavailable. Empty: none.",
    )
    log_format: str = setting(choice("json", "console"), "json", "Format of the service's own log lines.")
    log_level: str = setting(
        choice("debug", "info", "warning", "error"), "info", "The least severe log line that is written."
    )
