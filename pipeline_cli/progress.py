"""`pipeline wait`: prints a job's events and plugin calls as they happen, until it has ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar

from rich.text import Text

from pipeline_cli import render
from pipeline_cli.client import ServiceClient
from pipeline_cli.exits import Exit, ServiceUnavailable
from pipeline_cli.output import Output
from pipeline_core.states import FINAL, JobState

T = TypeVar("T")

SHORTEST_PAUSE = 0.2
LONGEST_PAUSE = 2.0
PATIENCE_SECONDS = 120.0
CALL_KEY = ("startedAt", "stage", "plugin", "asking", "outcome")
"""Fields that tell the entries of one trail apart."""


@dataclass
class Progress:
    """How many of a job's events have been printed, and which of the trail's entries, whose oldest may be deleted."""

    events: int = 0
    calls: set[tuple[Any, ...]] = field(default_factory=set)

    def new_lines(self, events: Sequence[render.Record], trail: Sequence[render.Record]) -> list[Text]:
        """The lines for events and entries that were not printed yet, by time."""
        timed = [(instant(event.get("occurredAt")), event_line(event)) for event in events[self.events :]]
        calls = {tuple(call.get(name) for name in CALL_KEY): call for call in trail if call.get("mode") != "shadow"}
        timed += [
            (instant(call.get("startedAt")), call_line(call)) for key, call in calls.items() if key not in self.calls
        ]
        self.events, self.calls = len(events), set(calls)
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
    result = render.outcome_text(call)
    parts = [render.plain(call.get("plugin") or ""), f"{outcome}: {result}" if result else outcome]
    return Text.assemble(
        (f"{render.clock(call.get('startedAt'))}  ", "dim"),
        f"  {render.plain(call.get('stage')):<10}",
        "  ".join(part for part in parts if part),
        (f"  {render.duration(call.get('durationMs'))}", "dim"),
    )


def ending(payload: render.Record) -> Iterator[Text]:
    """How a job ended, in one line."""
    job = payload["job"]
    code = f" with exit code {job['exitCode']}" if job.get("exitCode") is not None else ""
    reason = f": {render.plain(job['reason'])}" if job.get("reason") else ""
    yield Text.assemble(f"{render.plain(job.get('id'))} ", render.cell(job.get("state")), code, reason)


def wait_for(service: ServiceClient, out: Output, job_id: str) -> None:
    """Prints the job's progress until it has ended, then how it ended, or with `--output json` its detail.

    Raises SystemExit unless the job succeeded.
    """
    try:
        follow(service, job_id, out.progress)
    except KeyboardInterrupt:
        out.note(f"\n{job_id} goes on: `pipeline job {job_id}` shows it, `pipeline stop {job_id}` stops it")
        raise
    detail = retry_while_unavailable(lambda: service.get("v1", "job", "detail", job_id)).payload
    out.show(detail, ending)
    if detail["job"]["state"] != JobState.SUCCEEDED:
        raise SystemExit(Exit.JOB_NOT_SUCCEEDED)


def follow(service: ServiceClient, job_id: str, print_line: Callable[[Text | str], None]) -> None:
    """Passes each line of progress to `print_line`; returns when the job has ended."""
    progress, pause, shown_reason = Progress(), SHORTEST_PAUSE, ""
    while True:
        # The trail is read after the events: so it is complete when the last event has been read.
        events = retry_while_unavailable(lambda: service.all("v1", "job", "events", job_id))
        trail = retry_while_unavailable(lambda: service.all("v1", "job", "trail", job_id))
        before = progress.events
        lines = progress.new_lines(events, trail)
        for line in lines:
            print_line(line)
        state = events[-1]["state"] if events else None
        if state in FINAL:
            return
        if state == JobState.SUSPENDED and len(events) > before:
            print_line(f"waiting for `pipeline resume {job_id}`")
        if state == JobState.WAITING and pause == LONGEST_PAUSE:
            # No news for a while: show the reason that the job gives for waiting, if any.
            reason = (
                retry_while_unavailable(lambda: service.get("v1", "job", "detail", job_id)).payload["job"].get("reason")
                or ""
            )
            if reason != shown_reason:
                print_line(f"waiting: {render.plain(reason)}")
                shown_reason = reason
        pause = SHORTEST_PAUSE if lines else min(pause * 1.5, LONGEST_PAUSE)
        time.sleep(pause)


def retry_while_unavailable(call: Callable[[], T]) -> T:
    """What `call` returns; it is retried for two minutes while it raises ServiceUnavailable."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return call()
        except ServiceUnavailable as error:
            if time.monotonic() > deadline:
                raise
            time.sleep(min(error.retry_after or LONGEST_PAUSE, 30))
