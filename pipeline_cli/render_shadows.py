"""What a shadow answered, as tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.text import Text

from pipeline_cli.render import Record, duration, key_values, outcome_text, table, timestamp


def report(payload: Record) -> Iterator[Any]:
    """Counts and times, then the latest disagreements and errors."""
    latency = payload.get("latency") or {}
    yield key_values(
        {
            name: payload.get(name)
            for name in ("key", "mode", "shadowOf", "answers", "agreed", "disagreed", "errors", "dropped")
        }
        | {"not compared": payload.get("notCompared")}
        | {"took": _times(latency.get("shadow")), "decided in": _times(latency.get("decided"))}
    )
    for title, name in (("DISAGREEMENTS", "disagreements"), ("ERRORS", "lastErrors")):
        if pairs := payload.get(name):
            yield Text()
            rows = [
                [
                    pair.get("jobID"),
                    pair.get("stage"),
                    timestamp(pair.get("at")),
                    _answer(pair.get("shadow")),
                    _answer(pair.get("decided")),
                ]
                for pair in pairs
            ]
            yield table([title, "STAGE", "TIME", "SHADOW", "DECIDED"], rows)


def _times(latency: Record | None) -> str:
    if not latency:
        return ""
    median, most = duration(latency.get("medianMs")), duration(latency.get("p95Ms"))
    return f"{median} in the middle, 95 % within {most}"


def _answer(entry: Record | None) -> str:
    if not entry:
        return ""
    return f"{outcome_text(entry) or entry.get('outcome')} ({duration(entry.get('durationMs'))})"
