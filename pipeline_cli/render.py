"""Renders the service's payloads: pure functions from a payload to tables and lines of text."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import yaml
from rich.table import Table
from rich.text import Text

from pipeline_core.states import ReplicaState

Record = Mapping[str, Any]

# `-o json` shows all changes of a patch.
SHOWN_CHANGES = 4
# Of a list's columns that name nobody to be asked for: a long one would make the whole table wide.
SHOWN_LETTERS = 40
# Laying out a table of thousands takes seconds.
SHOWN_REPLICAS = 100
STYLES = {
    "succeeded": "green",
    "delivered": "green",
    "closed": "green",
    "open": "red",
    "half-open": "yellow",
    "pass": "green",
    "running": "cyan",
    "suspended": "yellow",
    "suspend": "yellow",
    "waiting": "blue",
    "failed": "red",
    "stop": "red",
    "exhausted": "red",
    "exception": "red",
    "stopped": "magenta",
    "blocked": "yellow",
    "expired": "magenta",
    "skipped": "dim",
    "upstream_failed": "red",
}


def plain(value: Any) -> str:
    """`value` as one line without control characters."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return "".join(letter if letter.isprintable() else " " for letter in text)


def cell(value: Any) -> Text:
    text = plain(value)
    return Text(text, style=STYLES.get(text, ""))


def timestamp(value: Any) -> str:
    """An RFC 3339 time without its fraction, with a space for the `T`."""
    text = plain(value)
    return f"{text[:10]} {text[11:19]}Z" if len(text) >= 20 and text[10] == "T" else text


def local_time(value: Any, zone: str) -> str:
    """An RFC 3339 time in the time zone of this name, with its offset; as `timestamp` has it where the zone is UTC, or not
    known on this machine."""
    text = plain(value)
    try:
        local = datetime.fromisoformat(text).astimezone(ZoneInfo(zone))
    except (ValueError, OSError, ZoneInfoNotFoundError):
        return timestamp(value)
    return timestamp(value) if local.tzname() == "UTC" else local.isoformat(" ", "seconds")


def clock(value: Any) -> str:
    """The time of day, with milliseconds, of an RFC 3339 time."""
    text = plain(value)
    time, _, fraction = text[11:].rstrip("Z").partition(".")
    return f"{time}.{fraction[:3]:0<3}" if text[10:11] == "T" else text


def brief(value: Any) -> str:
    """`plain`, cut after SHOWN_LETTERS letters; for lists, and not for what a command takes as an argument."""
    text = plain(value)
    return text if len(text) <= SHOWN_LETTERS else f"{text[: SHOWN_LETTERS - 1]}…"


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Table:
    result = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        result.add_column(column, overflow="fold")
    for row in rows:
        result.add_row(*(item if isinstance(item, Text) else cell(item) for item in row))
    return result


def key_values(pairs: Mapping[str, Any]) -> Table:
    """A table of names and values; those without a value are left out."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold")
    grid.add_column(overflow="fold")
    for name, value in pairs.items():
        if value not in (None, "", {}, []):
            grid.add_row(name, value if isinstance(value, Text) else cell(value))
    return grid


def document(value: Any) -> Iterator[Text]:
    yield Text(yaml.safe_dump(value, sort_keys=False, allow_unicode=True).rstrip())


def jobs(payload: Sequence[Record]) -> Iterator[Table]:
    yield table(
        ["JOB", "NAME", "KIND", "USER", "STATE", "STAGE", "CREATED", "FINISHED", "REASON"],
        [
            [
                row.get("jobID"),
                *(brief(row.get(field)) for field in ("jobName", "jobKind", "userID")),
                *(row.get(field) for field in ("state", "stage")),
                timestamp(row.get("createdAt")),
                timestamp(row.get("finishedAt")),
                row.get("reason") or "",
            ]
            for row in payload
        ],
    )


def job(payload: Record) -> Iterator[Any]:
    about = payload["job"]
    times = {"created": "createdAt", "suspended": "suspendedAt", "started": "startAt", "finished": "finishedAt"}
    yield key_values(
        {"job": about.get("id"), "name": about.get("name"), "kind": about.get("type"), "user": about.get("userID")}
        | {
            field: about.get(field)
            for field in ("state", "stage", "reason", "suspendedBy", "retryOf", "runID", "cleanup", "traceID")
        }
        | {name: timestamp(about[field]) for name, field in times.items() if about.get(field)}
        | {"retries": about.get("totalRetriedCount") or None, "exit code": about.get("exitCode")}
        | {"diagnostics": safe_lines(about.get("exitDiagnostics"))}
        | {"cluster": (payload.get("cluster") or {}).get("identity")}
    )
    for note in (payload.get("platformSpecificInfo") or {}).get("notes") or []:
        yield Text(f"! {plain(note)}", style="yellow")
    if tasks := payload.get("tasks"):
        yield Text()
        yield from replicas(tasks)


def safe_lines(text: str | None) -> Text | None:
    return Text("\n".join(map(plain, text.splitlines()))) if text else None


def replicas(tasks: Sequence[Record]) -> Iterator[Any]:
    """The first replicas and the first failed ones of the rest, and how many are left out."""
    of_all = [(task, replica) for task in tasks for replica in task.get("replicas") or []]
    first, others = of_all[:SHOWN_REPLICAS], of_all[SHOWN_REPLICAS:]
    failed = [pair for pair in others if pair[1].get("state") == ReplicaState.FAILED]
    fields = ("state", "exitCode", "retriedCount", "restartCount")
    yield table(
        ["TASK", "REPLICA", "STATE", "EXIT", "RETRIES", "RESTARTS", "STARTED", "FINISHED", "DIAGNOSTICS"],
        [
            [
                task.get("name"),
                replica.get("index"),
                *(replica.get(field) for field in fields),
                timestamp(replica.get("startAt")),
                timestamp(replica.get("finishedAt")),
                last_line(replica.get("exitDiagnostics")),
            ]
            for task, replica in [*first, *failed[:SHOWN_REPLICAS]]
        ],
    )
    if more := len(others) - len(failed[:SHOWN_REPLICAS]):
        of_these = f", {hidden} of them failed," if (hidden := len(failed[SHOWN_REPLICAS:])) else ""
        yield Text(f"{more} more replicas{of_these} are left out; `-o json` shows all.")


def last_line(text: Any) -> str:
    lines = str(text or "").strip().splitlines()
    return plain(lines[-1]) if lines else ""


def trail(payload: Sequence[Record]) -> Iterator[Table]:
    yield table(
        ["TIME", "STAGE", "PLUGIN", "TRIES", "TOOK", "OUTCOME", "WHAT"],
        [
            [
                clock(entry.get("startedAt")),
                entry.get("stage"),
                f"{entry.get('plugin') or ''}{' (shadow)' if entry.get('mode') == 'shadow' else ''}",
                entry.get("attempts") or "",
                duration(entry.get("durationMs")),
                entry.get("outcome") or "",
                outcome_text(entry),
            ]
            for entry in payload
        ],
    )


def duration(milliseconds: Any) -> str:
    if not isinstance(milliseconds, int | float):
        return ""
    return f"{milliseconds:.0f} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f} s"


def outcome_text(entry: Record) -> str:
    """The outcome of a trail entry in one line: a decision, factors, or the change made."""
    parts = [plain(entry["decision"])] if entry.get("decision") else []
    parts += [factor(given) for given in entry.get("factors") or []]
    operations = entry.get("patch") or []
    parts += [change(operation) for operation in operations[:SHOWN_CHANGES]]
    if more := len(operations[SHOWN_CHANGES:]):
        parts.append(f"{more} more")
    if reason := entry.get("reason"):
        parts = [f"{', '.join(parts)}: {plain(reason)}"] if parts else [plain(reason)]
    if who := entry.get("actor"):
        parts.append(f"by {plain(who)}")
    return ", ".join(parts)


def factor(given: Record) -> str:
    reason = f" ({plain(given['reason'])})" if given.get("reason") else ""
    return f"{plain(given.get('topic'))} {plain(given.get('advice'))}{reason}"


def change(operation: Record) -> str:
    """One operation of an RFC 6902 patch, its path without the prefix that all paths have."""
    path = plain(operation.get("path")).removeprefix("/spec").removeprefix("/")
    return f"{plain(operation.get('op'))} {path or 'the whole'}"


def events(payload: Sequence[Record]) -> Iterator[Table]:
    yield table(
        ["#", "TIME", "STATE", "BEFORE", "REASON", "DELIVERIES"],
        [
            [
                event.get("sequence"),
                timestamp(event.get("occurredAt")),
                event.get("state"),
                event.get("previousState") or "",
                event.get("reason") or "",
                ", ".join(
                    f"{plain(delivery.get('plugin'))} {plain(delivery.get('status'))}"
                    for delivery in event.get("deliveries") or []
                ),
            ]
            for event in payload
        ],
    )


def features(payload: Sequence[Record]) -> Iterator[Table]:
    yield table(
        ["FEATURE", "AUTHOR", "OWNER", "ON", "PLUGINS", "DESCRIPTION"],
        [
            [
                feature.get("name"),
                brief(feature.get("author")),
                brief(feature.get("owner")),
                feature.get("enabled"),
                ", ".join(plain(plugin.get("pluginType")) for plugin in feature.get("plugins") or []),
                feature.get("description") or "",
            ]
            for feature in payload
        ],
    )


def feature(payload: Record) -> Iterator[Any]:
    names = ("name", "author", "owner", "description", "enabled", "authorization")
    selector = payload.get("jobSelector") or {}
    yield key_values({name: payload.get(name) for name in names} | {"selector": selector.get("expression")})
    yield Text()
    yield from plugins(payload.get("plugins") or [])


def plugins(payload: Sequence[Record]) -> Iterator[Table]:
    yield table(
        ["TYPE", "#", "PLUGIN", "MODE", "OWNER", "ON", "ADDRESS", "WHEN", "ON FAILURE", "RESUMED BY"],
        [
            [
                plugin.get("pluginType"),
                plugin.get("sequence"),
                plugin.get("key"),
                plugin.get("mode"),
                brief(plugin.get("owner")),
                plugin.get("enabled"),
                plugin.get("callAddress"),
                (plugin.get("effectiveJobSelector") or {}).get("expression") or "*",
                plugin.get("failurePolicy"),
                plugin.get("resume") or "",
            ]
            for plugin in payload
        ],
    )


def plugin(payload: Record) -> Iterator[Any]:
    names = ("key", "feature", "owner", "description", "enabled", "mode", "shadowOf", "sequence", "callAddress")
    policies = ("failurePolicy", "resume")
    limits = ("timeoutSeconds", "maxAttempts", "patienceSeconds")
    selector = payload.get("effectiveJobSelector") or {}
    health = payload.get("health")
    yield key_values(
        {name: payload.get(name) for name in (*names, *policies, *limits)}
        | {"selector": selector.get("expression")}
        | {"circuit": health.get("circuit") if health else "unknown: Redis is away"}
        | ({"failures in a row": health.get("failuresInARow"), "last failure": health.get("cause")} if health else {})
    )
    if recent := (health or {}).get("recent"):
        yield Text()
        rows = [[timestamp(call.get("at")), call.get("outcome"), duration(call.get("durationMs"))] for call in recent]
        yield table(["LAST CALLS", "OUTCOME", "TOOK"], rows)


def deliveries(payload: Sequence[Record]) -> Iterator[Table]:
    fields = ("sequence", "plugin", "status", "attempts", "lastAnswer")
    yield table(
        ["DELIVERY", "JOB OR RUN", "#", "PLUGIN", "STATUS", "TRIES", "LAST ANSWER", "NEXT TRY"],
        [
            [
                delivery.get("id"),
                delivery.get("jobID") or delivery.get("runID"),
                *(delivery.get(field) for field in fields),
                timestamp(delivery.get("nextAt")) if delivery.get("status") == "waiting" else "",
            ]
            for delivery in payload
        ],
    )


def audit(payload: Sequence[Record]) -> Iterator[Table]:
    fields = ("action", "target", "address", "reason")
    yield table(
        ["TIME", "WHO", "DID", "TO", "FROM", "REASON"],
        [
            [timestamp(entry.get("at")), brief(entry.get("actor")), *(entry.get(field) for field in fields)]
            for entry in payload
        ],
    )


def tokens(payload: Sequence[Record]) -> Iterator[Table]:
    yield table(
        ["ID", "FOR", "PRIVILEGES", "OWN ONLY", "EXPIRES", "LAST USED", "NOTE"],
        [
            [
                token.get("id"),
                brief(token.get("forwho")),
                ", ".join(token.get("privileges") or []),
                token.get("ownOnly"),
                timestamp(token.get("expiresAt")),
                timestamp(token.get("lastUsedAt")),
                token.get("note") or "",
            ]
            for token in payload
        ],
    )


def status(payload: Record) -> Iterator[Any]:
    for problem in payload["problems"]:
        yield Text(f"! {plain(problem)}", style="red")
    if not payload["problems"]:
        yield Text("All is well.", style="green")
    yield Text()
    yield key_values(
        {
            "jobs": counted(payload["jobs"]),
            "steps": counted(by_stage_and_condition(payload["steps"])),
            "runs": counted(payload["runs"]) or None,
            "ended counted": ago(payload["endedAgeSeconds"]),
            "queues": "Redis is away" if payload["queues"] is None else counted(payload["queues"]) or "empty",
            "clean-ups": payload["cleanups"] or None,
            "cluster": cluster_health(payload["cluster"]),
            "watcher": ago(payload["cluster"]["reportAgeSeconds"]),
            "beat": ago(payload["beatHeartbeatAgeSeconds"]),
            "queue probe": ago(max((one["ageSeconds"] for one in payload["queueProbes"]), default=None)),
        }
    )
    if workers := payload["workers"]:
        held: Counter[str] = Counter()
        for steps in payload["steps"]:
            held[steps["worker"]] += steps["count"]
        yield Text()
        yield table(
            ["WORKER", "HEARTBEAT", "HOLDS"],
            [[one["worker"], ago(one["heartbeatAgeSeconds"]), held[one["worker"]]] for one in workers],
        )
    if plugins := payload["plugins"]:
        late = {one["plugin"]: one for one in payload["deliveries"]}
        yield Text()
        yield table(
            ["PLUGIN", "CIRCUIT", "FAILURES", "EVENTS DUE", "LAST FAILURE"],
            [
                [
                    *(one[field] for field in ("plugin", "circuit", "failures")),
                    late.get(one["plugin"], {}).get("count", 0),
                    one["cause"],
                ]
                for one in plugins
            ],
        )


def cluster_health(cluster: Record) -> str:
    """The cluster's name, and whether it can be used."""
    state = (
        "can be used" if cluster["usable"] else f"cannot be used: {cluster['problem'] or 'no watcher has reported yet'}"
    )
    return plain(f"{cluster['name']} {state}")


def by_stage_and_condition(steps: Sequence[Record]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for one in steps:
        counts[f"{plain(one['stage'])} {plain(one['condition'])}"] += one["count"]
    return counts


def counted(numbers: Mapping[str, int]) -> str:
    """Names with their counts, without those that are 0."""
    return ", ".join(f"{number} {plain(name)}" for name, number in numbers.items() if number)


def ago(seconds: float | None) -> str:
    return "never" if seconds is None else f"{seconds:.0f} s ago"
