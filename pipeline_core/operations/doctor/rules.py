"""Which findings the facts about an installation amount to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pipeline_core.database import revisions
from pipeline_core.operations import health_checks
from pipeline_core.operations.doctor import settings_rules
from pipeline_core.operations.doctor.facts import Clock, DatabaseFacts, Disk, Facts, RedisFacts
from pipeline_core.settings import Settings

OBSERVING = "docs/observing.md"
STUCK = "docs/when-something-is-stuck.md"

LEAST_POSTGRES = 140000
LEAST_REDIS = (6, 2)
CLOCK_SECONDS = 2.0
ROUND_TRIP_SECONDS = 0.02
FREE_PART = 0.05
FREE_BYTES = 1024**3
FULL_PART = 0.8
DURABLE = {"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on"}
"""Parameters of PostgreSQL with which a committed transaction outlives a crash. `synchronous_commit` may also be stricter."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong: with what (`where`), in which way, what to do, and the paragraph of the docs about it."""

    check: str
    where: str
    wrong: str
    advice: str
    docs: str


def findings(facts: Facts, chosen: Settings) -> list[Finding]:
    """All that is wrong, causes before consequences; empty when nothing is."""
    return [
        *_of_libraries(facts),
        *_of_settings(facts, chosen),
        *_of_the_database(facts, chosen),
        *_of_redis(facts),
        *(_of_the_disk(facts.disk) if facts.disk else ()),
        *_of_the_cluster(facts, chosen),
        *_of_the_status(facts, chosen),
    ]


def finding(check: str, where: str, wrong: str, advice: str) -> Finding:
    """A finding whose paragraph is that of the check, on the page about observing."""
    return Finding(check, where, wrong, advice, f"{OBSERVING}#{check}")


def invalid_settings(error: str) -> Finding:
    """The settings cannot be read, so that nothing else can be looked at."""
    return finding("settings", "the environment", error, "correct the variables that are named")


def _of_libraries(facts: Facts) -> Iterator[Finding]:
    for library in facts.wrong_libraries:
        found = f"is {library.installed}" if library.installed else "is not installed"
        yield finding(
            "libraries",
            library.name,
            f"it {found}, and the service needs {library.name}{library.required}",
            "install the service again from its lock file: pip install -r requirements/server.lock",
        )


def _of_settings(facts: Facts, chosen: Settings) -> Iterator[Finding]:
    for name in facts.unknown_variables:
        meant = settings_rules.similar(name)
        yield finding(
            "settings",
            name,
            "there is no such setting: the variable has no effect",
            f"set {meant} if that is meant, and remove {name}" if meant else "remove it",
        )
    for found in settings_rules.contradictions(chosen):
        yield finding("settings", found.variables, found.wrong, found.advice)


def _of_the_database(facts: Facts, chosen: Settings) -> Iterator[Finding]:
    database = facts.database
    if database is None:
        yield finding(
            "database",
            "PIPELINE_DATABASE_URL",
            facts.database_error,
            "start PostgreSQL, or correct the URL; all processes connect again by themselves",
        )
        return
    if database.version < LEAST_POSTGRES:
        yield finding(
            "database-version",
            "PostgreSQL",
            f"it is {database.version_text}, and the service needs {LEAST_POSTGRES // 10000} or newer",
            "upgrade PostgreSQL",
        )
    yield from _of_the_schema(database)
    yield from _of_durability(database)
    yield from _of_connections(database, facts, chosen)
    yield from _of_a_clock("PostgreSQL", "database", database.clock)
    if database.undecryptable:
        yield finding(
            "secret-key",
            "PIPELINE_SECRET_KEY",
            f"{database.undecryptable} stored secrets of features cannot be decrypted with any of its keys",
            "add the key that they were stored with behind the present one, separated by a comma",
        )
    if database.admin_error:
        yield finding(
            "admin-password", "PIPELINE_ADMIN_PASSWORD", database.admin_error, "set it, and start the API again"
        )
    if database.well_known_password and chosen.public_url:
        yield finding(
            "admin-password",
            "PIPELINE_DEVELOPMENT, PIPELINE_PUBLIC_URL",
            f"users reach the service at {chosen.public_url}, and the admin's password is the one of development runs",
            "change the password, or set PIPELINE_ADMIN_PASSWORD",
        )


def _of_the_schema(database: DatabaseFacts) -> Iterator[Finding]:
    if database.revision != revisions.head() and not revisions.is_newer(database.revision):
        yield finding(
            "migrations",
            "the database's schema",
            f"it is at {database.revision or 'nothing'}, and this version needs {revisions.head()}",
            "run `pipeline database upgrade`",
        )


def _of_durability(database: DatabaseFacts) -> Iterator[Finding]:
    for name, right in DURABLE.items():
        value = database.parameters.get(name, right)
        if value == "off":
            yield finding(
                "durability",
                f"PostgreSQL, {name}",
                f"it is {value}: a crash of PostgreSQL may lose jobs that were answered with their IDs",
                f"set {name} to {right}, for the server, the database and the role",
            )
    if database.in_recovery or database.parameters.get("default_transaction_read_only") == "on":
        why = "it is a standby" if database.in_recovery else "default_transaction_read_only is on"
        yield finding(
            "read-only",
            "PostgreSQL",
            f"nothing can be written: {why}",
            "name the primary in PIPELINE_DATABASE_URL, or let it write again",
        )


def _of_connections(database: DatabaseFacts, facts: Facts, chosen: Settings) -> Iterator[Finding]:
    workers = len(facts.status.worker_ages()) if facts.status else 0
    processes = workers + facts.other_processes
    wanted = processes * chosen.database_connections
    for what, limit in database.connection_limits.items():
        if wanted > limit:
            yield finding(
                "connections",
                f"PostgreSQL, {what}",
                f"it admits {limit} connections, and {processes} processes may open {chosen.database_connections} each: {wanted}",
                f"raise it to {wanted} or more, or lower PIPELINE_DATABASE_CONNECTIONS",
            )


def _of_a_clock(server: str, check: str, clock: Clock) -> Iterator[Finding]:
    if abs(clock.ahead_seconds) > CLOCK_SECONDS:
        direction = "ahead of" if clock.ahead_seconds > 0 else "behind"
        yield finding(
            "clocks",
            server,
            f"its clock is {abs(clock.ahead_seconds):.0f} s {direction} this host's",
            "let both hosts take their time by NTP",
        )
    if clock.round_trip_seconds > ROUND_TRIP_SECONDS:
        yield finding(
            "latency",
            server,
            f"the quickest answer took {clock.round_trip_seconds * 1000:.0f} ms, and each stage waits for several",
            f"bring the service and the {check} nearer to each other, or see what keeps the server busy",
        )


def _of_redis(facts: Facts) -> Iterator[Finding]:
    redis = facts.redis
    if redis is None:
        yield finding(
            "redis",
            "PIPELINE_REDIS_URL",
            facts.redis_error,
            "start Redis, or correct the URL; nothing is lost meanwhile, and nothing is woken",
        )
        return
    yield from _of_a_clock("Redis", "Redis", redis.clock)
    yield from _of_memory(redis)
    yield from _of_its_state(redis)


def _of_memory(redis: RedisFacts) -> Iterator[Finding]:
    policy = redis.info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        yield finding(
            "eviction",
            "Redis, maxmemory-policy",
            f"it is {policy}: when Redis is full it drops messages",
            "set it to noeviction",
        )
    used, most = int(redis.info.get("used_memory", 0)), int(redis.info.get("maxmemory", 0))
    if most and used > FULL_PART * most:
        yield finding(
            "redis-memory",
            "Redis, maxmemory",
            f"{used / most:.0%} of {_size(most)} are used; when it is full, nothing is woken",
            "raise maxmemory, or see which queue is long: `pipeline status`",
        )


def _of_its_state(redis: RedisFacts) -> Iterator[Finding]:
    version = redis.info.get("redis_version", "")
    if version and tuple(map(int, version.split(".")[:2])) < LEAST_REDIS:
        needed = ".".join(map(str, LEAST_REDIS))
        yield finding(
            "redis-version", "Redis", f"it is {version}, and the service needs {needed} or newer", "upgrade Redis"
        )
    if redis.info.get("role", "master") != "master":
        yield finding(
            "read-only", "Redis", "it is a replica, which takes no messages", "name its master in PIPELINE_REDIS_URL"
        )
    for name in ("rdb_last_bgsave_status", "aof_last_write_status", "aof_last_bgrewrite_status"):
        if redis.info.get(name, "ok") != "ok":
            yield finding(
                "redis-disk", f"Redis, {name}", f"it is {redis.info[name]}", "see whether Redis's disk is full"
            )
    clients, most = int(redis.info.get("connected_clients", 0)), int(redis.info.get("maxclients", 0))
    if most and clients > FULL_PART * most:
        yield finding(
            "redis-clients", "Redis, maxclients", f"{clients} of {most} clients are connected", "raise maxclients"
        )


def _of_the_disk(disk: Disk) -> Iterator[Finding]:
    if disk.error:
        yield finding(
            "disk",
            str(disk.path),
            disk.error,
            "correct PIPELINE_DATA_DIR or PIPELINE_ARCHIVE_URL, or the rights of the directory",
        )
    elif disk.total and disk.free < min(FREE_BYTES, FREE_PART * disk.total):
        yield finding(
            "disk",
            str(disk.path),
            f"{_size(disk.free)} of {_size(disk.total)} are free",
            "make room: logs of jobs are kept for PIPELINE_LOG_DAYS",
        )


def _of_the_cluster(facts: Facts, chosen: Settings) -> Iterator[Finding]:
    if facts.cluster_error:
        yield Finding(
            "cluster",
            f"the cluster {chosen.cluster_name}",
            facts.cluster_error,
            "see what the paragraph says about this failure; jobs wait meanwhile, and none fails",
            f"{STUCK}#pipelineclusterunusable",
        )


def _of_the_status(facts: Facts, chosen: Settings) -> Iterator[Finding]:
    if facts.status is None or facts.database is None:
        return
    if not facts.database.up_seconds:
        yield finding(
            "processes",
            "the service",
            "none of its processes is connected to the database",
            "start them: `pipeline up`, or `pipeline api`, `worker`, `beat` and `watch`",
        )
        return
    here = replace(facts.status, up_seconds=facts.database.up_seconds)
    for problem in health_checks.problems(here, chosen):
        if problem.alert == "PipelineRedisAway" or (facts.cluster_error and problem.alert == "PipelineClusterUnusable"):
            continue
        advice = ADVICE[problem.alert]
        yield Finding("service", advice.where, problem.text, advice.todo, f"{STUCK}#{problem.alert.lower()}")


@dataclass(frozen=True, slots=True)
class Advice:
    """Where a problem of a status is, and what to do about it, in a few words."""

    where: str
    todo: str


ADVICE = {
    "PipelineBeatHeartbeatOld": Advice("beat", "start beat again; two do no harm"),
    "PipelineQueueProbeOld": Advice("a queue", "start workers that serve it, or those that hang again"),
    "PipelineWorkerHeartbeatOld": Advice("a worker", "start it again; others take over what it held"),
    "PipelineWatcherSilent": Advice("the watcher", "start the watcher; several do no harm"),
    "PipelineWatcherLate": Advice("the watcher", "see in its log what it waits for"),
    "PipelineClusterUnusable": Advice("the cluster", "see what the paragraph says about this failure"),
    "PipelineStepsOverdue": Advice("the ticks", "see whether a housekeeping worker serves the queue ticks"),
    "PipelineStepsWaiting": Advice("the stages", "start more stage workers"),
    "PipelineJobsStale": Advice("the ticks", "look for `tick failed` in the housekeeping worker's log"),
    "PipelineSchedulesFailing": Advice(
        "flows", "see `pipeline flow list` for which, and `pipeline flow schedule NAME` for why"
    ),
    "PipelinePluginAway": Advice("a plugin", "start it again, or turn its feature off"),
    "PipelinePluginFailsJobs": Advice("a plugin", "mend it, or turn its feature off"),
    "PipelineDeliveriesLate": Advice("a subscriber", "see `pipeline deliveries --status waiting` for what it answers"),
}


def _size(count: int) -> str:
    return f"{count / 1024**3:.1f} GiB" if count >= 1024**3 else f"{count / 1024**2:.1f} MiB"
