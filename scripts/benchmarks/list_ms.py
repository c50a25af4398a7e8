"""Lists of jobs and a job's detail over HTTP, with a million of them; against the bare SQL of the same answer."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from scripts.benchmarks.asking import Asker, Case, asking
from scripts.benchmarks.results import Result
from scripts.benchmarks.scale import Scale
from scripts.benchmarks.stand import standing
from scripts.benchmarks.stored import GATE, fill

NAME = "list_ms"
GOAL_RATIO = 3.0
GOAL_MILLISECONDS = 20.0
HOUR = 3600

FILTERS: dict[str, tuple[dict[str, Any], str]] = {
    "first": ({}, "true"),
    "user": ({"userID": "user-7"}, "user_id = 'user-7'"),
    "kind": ({"kind": "TFJob"}, "kind = 'TFJob'"),
    "state": ({"state": "failed"}, "state = 'failed'"),
    "two_states": ({"state": "running,suspended"}, "state IN ('running', 'suspended')"),
    "stage": ({"stage": "gates"}, "stage = 'gates'"),
    "suspended_by": ({"suspendedBy": GATE}, f"suspended_by = '{GATE}' AND suspended_at IS NOT NULL"),
    "name": ({"name": "job-12"}, "name LIKE 'job-12%'"),
    "user_and_state": ({"userID": "user-3", "state": "failed"}, "user_id = 'user-3' AND state = 'failed'"),
    "kind_and_state": ({"kind": "TFJob", "state": "running"}, "kind = 'TFJob' AND state = 'running'"),
}
"""By name: a query's parameters, and the condition that means the same."""
DEEP = ("first", "user", "kind", "state", "name")
"""Those of them that are long enough to be gone on with in the middle."""

_PAGE = (
    "SELECT id, name, kind, user_id, state, stage, reason, created_at, started_at, finished_at FROM jobs "
    "WHERE {} ORDER BY id DESC LIMIT 21"
)
_TOTAL = "SELECT count(*) FROM (SELECT id FROM jobs WHERE {} LIMIT 10001) AS found"
_DETAIL = (
    "SELECT jobs.*, taskset, roles, platform FROM jobs JOIN job_documents ON job_id = id WHERE id = '{}'",
    "SELECT * FROM replicas WHERE job_id = '{}' ORDER BY role, index",
)


@dataclass(frozen=True)
class Middle:
    """A job with as many before it as after it, and the first of the hour that it ends."""

    id: str
    created_at: datetime
    hour_before: str


def measure(scale: Scale) -> Result:
    """Each way of asking in turn; the row is the one that takes longest."""
    with standing() as stand:
        fill(stand, scale.stored)
        stand.start_service("api")
        with asking(stand) as asker:
            cases = _cases(_middle(asker, scale.stored // 2))
            found = {name: asker.figures(case, scale.samples) for name, case in cases.items()}
    slowest = max(found.values(), key=lambda figures: figures["p95"])
    return Result(
        name=NAME,
        value=slowest["p95"],
        unit="ms",
        baseline=slowest["bare_p95"],
        goal=f"p95 of each: ratio at most {GOAL_RATIO:g}, and under {GOAL_MILLISECONDS:g} ms",
        met=all(each["ratio"] <= GOAL_RATIO and each["p95"] < GOAL_MILLISECONDS for each in found.values()),
        samples=scale.samples,
        more={"jobs": scale.stored, "cases": found},
    )


def _middle(asker: Asker, offset: int) -> Middle:
    asker.cursor.execute(
        "SELECT id, created_at FROM jobs ORDER BY id OFFSET %s LIMIT %s", (max(offset - HOUR, 0), HOUR + 1)
    )
    hour = asker.cursor.fetchall()
    (hour_before, _), (job_id, created_at) = hour[0], hour[-1]
    return Middle(job_id, created_at, hour_before)


def _cases(middle: Middle) -> dict[str, Case]:
    from api.paging import encode_cursor
    from pipeline_core.jobs.queries import Total

    second = int(middle.created_at.timestamp())
    hour = {"startAt": second - HOUR, "endAt": second}
    # An ID begins with its time, so that the index of IDs is the right one.
    filters = {**FILTERS, "time": (hour, f"id >= '{middle.hour_before}' AND id <= '{middle.id}'")}
    first = {
        name: Case("list", parameters, (_PAGE.format(where), _TOTAL.format(where)))
        for name, (parameters, where) in filters.items()
    }
    cursor = encode_cursor(middle.id, Total.of(10_001))
    deep = {
        f"{name}_deep": Case(
            "list",
            {**FILTERS[name][0], "cursor": cursor},
            (_PAGE.format(f"{FILTERS[name][1]} AND id < '{middle.id}'"),),
        )
        for name in DEEP
    }
    detail = Case(f"detail/{middle.id}", {}, [statement.format(middle.id) for statement in _DETAIL])
    return {**first, **deep, "detail": detail}
