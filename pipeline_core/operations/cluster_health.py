"""Cluster health: what the watcher reports of the cluster every few seconds, and since when the cluster cannot be used."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import case, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from pipeline_core.common.clock import rfc3339
from pipeline_core.database import transaction
from pipeline_core.database.models import ClusterHealthRow


@dataclass(frozen=True, slots=True)
class ClusterHealth:
    """The last report on a cluster. `problem` says why it cannot be used, and is empty when it can; `since` is the time at which
    that began (RFC 3339), `problem_seconds` its age. `report_age_seconds` is None before the first report."""

    name: str
    problem: str = ""
    since: str | None = None
    problem_seconds: float = 0.0
    report_age_seconds: float | None = None
    lag_seconds: float = 0.0

    @property
    def sentence(self) -> str:
        """What is wrong with the cluster, and since when; empty when nothing is."""
        return f"The cluster {self.name} cannot be used since {self.since}: {self.problem}" if self.problem else ""


def report(name: str, *, problem: str = "", lag_seconds: float = 0.0) -> None:
    """Write the watcher's report on the cluster `name`. A problem that goes on keeps its beginning. Raises Unavailable."""
    began = case((ClusterHealthRow.problem_since.is_(None), func.now()), else_=ClusterHealthRow.problem_since)
    row = {"name": name, "reported_at": func.now(), "problem": problem, "lag_seconds": lag_seconds}
    statement = insert(ClusterHealthRow).values(**row, problem_since=func.now() if problem else None)
    with transaction() as session:
        session.execute(
            statement.on_conflict_do_update(
                index_elements=["name"], set_={**row, "problem_since": began if problem else None}
            )
        )


def read(session: Session, name: str) -> ClusterHealth:
    """The last report on the cluster `name`."""
    row = session.scalar(select(ClusterHealthRow).where(ClusterHealthRow.name == name))
    if row is None:
        return ClusterHealth(name)
    at = session.scalar(select(func.now()))
    assert at is not None
    return ClusterHealth(
        name,
        row.problem,
        rfc3339(row.problem_since),
        (at - row.problem_since).total_seconds() if row.problem_since else 0.0,
        (at - row.reported_at).total_seconds(),
        row.lag_seconds,
    )
