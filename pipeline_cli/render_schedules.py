"""Renders schedules and backfills: pure functions, as those of `render`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pipeline_cli.render import Record, key_values, local_time, plain, table, timestamp


def schedule(payload: Record) -> Iterator[Any]:
    missed, zone = payload["missed"], payload["timezone"]
    yield key_values(
        {
            "flow": payload["flow"],
            "schedule": f"{plain(payload['cron'])} ({plain(payload['timezone'])})" if payload["cron"] else "none",
            "paused": payload["paused"] if payload["cron"] else None,
            "missed": _missed(missed, zone) if missed["count"] else None,
            "fault": payload["fault"],
        }
    )
    if payload["next"]:
        yield ""
        yield table(["NEXT"], [[local_time(point, zone)] for point in payload["next"]])


def _missed(missed: Record, zone: str) -> str:
    count = f"{missed['count']}" if missed["exact"] else f"at least {missed['count']}"
    return f"{count}, the first at {local_time(missed['first'][0], zone)}"


def resumed(payload: Record) -> Iterator[str]:
    zone = payload["timezone"]
    first = local_time(payload["next"][0], zone) if payload["next"] else "never"
    missed = f"; {_missed(payload['missed'], zone)} made up before" if payload["missed"]["count"] else ""
    yield f"{plain(payload['flow'])} goes on; next at {first}{missed}"


def planned(payload: Record) -> Iterator[Any]:
    left_out = {item["point"]: item for item in payload["leftOut"]}
    points = sorted([*payload["points"], *left_out])
    if points:
        rows = [_row(point, left_out.get(point), payload["timezone"]) for point in points]
        yield table([_heading(payload), "RUN", "LEFT OUT AS"], rows)
    yield plain(payload.get("backfillID") or f"{len(payload['points'])} points would be run")


def _heading(payload: Record) -> str:
    return f"POINT ({plain(payload['timezone'])})"


def _row(point: str, left_out: Record | None, zone: str) -> list[str]:
    if left_out is None:
        return [local_time(point, zone), "", ""]
    return [local_time(point, zone), left_out["runID"] or "", left_out["state"]]


def backfills(payload: Sequence[Record]) -> Iterator[Any]:
    yield table(
        ["BACKFILL", "STATE", "FROM", "TO", "POINTS", "MADE", "RUNNER", "CREATED", "REASON"],
        [
            [
                row["id"],
                row["state"],
                *(local_time(row[name], row["timezone"]) for name in ("from", "to")),
                *(row[name] for name in ("total", "made", "runner")),
                timestamp(row["createdAt"]),
                row["reason"],
            ]
            for row in payload
        ],
    )


def backfill(payload: Record) -> Iterator[Any]:
    names = ("id", "flow", "state", "reason", "runner")
    yield key_values(
        {
            **{name: payload[name] for name in names},
            "stop on failure": payload["stopOnFailure"],
            "created": timestamp(payload["createdAt"]),
            "finished": timestamp(payload["finishedAt"]) if payload["finishedAt"] else None,
        }
    )
    if payload["points"]:
        yield ""
        rows = [
            [local_time(row["point"], payload["timezone"]), row["runID"] or "", row["state"]]
            for row in payload["points"]
        ]
        yield table([_heading(payload), "RUN", "STATE"], rows)
