"""A job's way through the stages, shown as it happens."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from rich.text import Text

from pipeline_cli import render
from pipeline_cli.client import Client
from pipeline_cli.exits import Exit, Unavailable
from pipeline_cli.output import Output
from pipeline_core.states import FINAL, JobState

T = TypeVar("T")

SHORTEST_PAUSE = 0.2
LONGEST_PAUSE = 2.0
PATIENCE_SECONDS = 120.0


@dataclass
class Progress:
    """How much of a job's events and trail has been told already."""

    events: int = 0
    calls: int = 0

    def news(self, events: Sequence[render.Record], trail: Sequence[render.Record]) -> list[Text]:
        """The lines for what came since the last time, in the order in which it happened."""
        timed = [(instant(event.get("occurredAt")), event_line(event)) for event in events[self.events :]]
        timed += [(instant(call.get("startedAt")), call_line(call)) for call in trail[self.calls :]]
        self.events, self.calls = len(events), len(trail)
        return [line for _, line in sorted(timed, key=lambda pair: pair[0])]


def instant(text: Any) -> datetime:
    try:
        parsed = datetime.fromisoformat(str(text))
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def event_line(event: render.Record) -> Text:
    reason = f"  {render.plain(event['reason'])}" if event.get("reason") else ""
    return Text.assemble((f"{render.clock(event.get('occurredAt'))}  ", "dim"), render.cell(event.get("state")), reason)


def call_line(call: render.Record) -> Text:
    outcome = render.plain(call.get("outcome") or "")
    said = render.said(call)
    parts = [render.plain(call.get("plugin") or ""), f"{outcome}: {said}" if said else outcome]
    return Text.assemble(
        (f"{render.clock(call.get('startedAt'))}  ", "dim"),
        f"  {render.plain(call.get('stage')):<10}",
        "  ".join(part for part in parts if part),
        (f"  {render.took(call.get('durationMs'))}", "dim"),
    )


def ending(payload: render.Record) -> Iterator[Text]:
    """How a job ended, in one line."""
    job = payload["job"]
    code = f" with exit code {job['exitCode']}" if job.get("exitCode") is not None else ""
    reason = f": {render.plain(job['reason'])}" if job.get("reason") else ""
    yield Text.assemble(f"{render.plain(job.get('id'))} ", render.cell(job.get("state")), code, reason)


def wait_for(service: Client, out: Output, job_id: str) -> None:
    """Shows the job's way until it has ended; then its end, or with `--output json` its detail.

    Raises SystemExit unless the job succeeded.
    """
    try:
        follow(service, job_id, out.tell)
    except KeyboardInterrupt:
        out.note(f"\n{job_id} goes on: `pipeline job {job_id}` shows it, `pipeline stop {job_id}` stops it")
        raise
    detail = patiently(lambda: service.get("v1", "job", "detail", job_id)).payload
    out.show(detail, ending)
    if detail["job"]["state"] != JobState.SUCCEEDED:
        raise SystemExit(Exit.JOB_NOT_SUCCEEDED)


def follow(service: Client, job_id: str, tell: Callable[[Text | str], None]) -> None:
    """Tells each line of the job's way as it comes; returns when the job has ended."""
    progress, pause, told = Progress(), SHORTEST_PAUSE, ""
    while True:
        # In this order the trail is never behind the events, so that nothing is missing when the last one has come.
        events = patiently(lambda: service.all("v1", "job", "events", job_id))
        trail = patiently(lambda: service.all("v1", "job", "trail", job_id))
        before = progress.events
        lines = progress.news(events, trail)
        for line in lines:
            tell(line)
        state = events[-1]["state"] if events else None
        if state in FINAL:
            return
        if state == JobState.SUSPENDED and len(events) > before:
            tell(f"waiting for `pipeline resume {job_id}`")
        if state == JobState.WAITING and pause == LONGEST_PAUSE:
            # Nothing happens: the job says what it waits for, if it waits for anything.
            reason = patiently(lambda: service.get("v1", "job", "detail", job_id)).payload["job"].get("reason") or ""
            if reason != told:
                tell(f"waiting: {render.plain(reason)}")
                told = reason
        pause = SHORTEST_PAUSE if lines else min(pause * 1.5, LONGEST_PAUSE)
        time.sleep(pause)


def patiently(call: Callable[[], T]) -> T:
    """What `call` returns; a service that is away is asked again for two minutes: the job does not mind."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return call()
        except Unavailable as error:
            if time.monotonic() > deadline:
                raise
            time.sleep(min(error.retry_after or LONGEST_PAUSE, 30))
