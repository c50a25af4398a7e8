"""What people see of schedules and backfills: pure functions, as those of `render`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pipeline_cli.render import Record, facts, moment, plain, table


def schedule(payload: Record) -> Iterator[Any]:
    missed = payload["missed"]
    yield facts(
        {
            "flow": payload["flow"],
            "schedule": f"{plain(payload['cron'])} ({plain(payload['timezone'])})" if payload["cron"] else "none",
            "paused": payload["paused"] if payload["cron"] else None,
            "missed": _missed(missed) if missed["count"] else None,
            "fault": payload["fault"],
        }
    )
    if payload["next"]:
        yield ""
        yield table(["NEXT"], [[moment(point)] for point in payload["next"]])


def _missed(missed: Record) -> str:
    count = f"{missed['count']}" if missed["exact"] else f"more than {missed['count']}"
    return f"{count}, the first at {moment(missed['first'][0])}"


def resumed(payload: Record) -> Iterator[str]:
    first = moment(payload["next"][0]) if payload["next"] else "never"
    missed = f"; {_missed(payload['missed'])} made up before" if payload["missed"]["count"] else ""
    yield f"{plain(payload['flow'])} goes on; next at {first}{missed}"


def planned(payload: Record) -> Iterator[Any]:
    left_out = {item["point"]: item for item in payload["leftOut"]}
    points = sorted([*payload["points"], *left_out])
    if points:
        yield table(["POINT", "RUN", "LEFT OUT AS"], [_row(point, left_out.get(point)) for point in points])
    yield plain(payload.get("backfillID") or f"{len(payload['points'])} points would be run")


def _row(point: str, left_out: Record | None) -> list[str]:
    if left_out is None:
        return [moment(point), "", ""]
    return [moment(point), left_out["runID"] or "", left_out["state"]]


def backfills(payload: Sequence[Record]) -> Iterator[Any]:
    yield table(
        ["BACKFILL", "STATE", "FROM", "TO", "POINTS", "MADE", "RUNNER", "CREATED", "REASON"],
        [
            [
                row["id"],
                row["state"],
                *(moment(row[name]) for name in ("from", "to")),
                *(row[name] for name in ("total", "made", "runner")),
                moment(row["createdAt"]),
                row["reason"],
            ]
            for row in payload
        ],
    )


def backfill(payload: Record) -> Iterator[Any]:
    names = ("id", "flow", "state", "reason", "runner")
    yield facts(
        {
            **{name: payload[name] for name in names},
            "stop on failure": payload["stopOnFailure"],
            "created": moment(payload["createdAt"]),
            "finished": moment(payload["finishedAt"]) if payload["finishedAt"] else None,
        }
    )
    if payload["points"]:
        yield ""
        rows = [[moment(row["point"]), row["runID"] or "", row["state"]] for row in payload["points"]]
        yield table(["POINT", "RUN", "STATE"], rows)
