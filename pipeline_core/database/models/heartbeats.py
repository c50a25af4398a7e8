"""Heartbeats of the service's processes, and what the watcher reports of the cluster."""

from __future__ import annotations

from sqlalchemy.orm import Mapped, mapped_column

from pipeline_core.database.models.base import Base, Timestamp


class Heartbeat(Base):
    """When a process last wrote its heartbeat, or a queue probe last arrived."""

    __tablename__ = "heartbeats"

    name: Mapped[str] = mapped_column(primary_key=True)
    at: Mapped[Timestamp]


class ClusterHealthRow(Base):
    """What the watcher last reported of a cluster. `problem` is empty when the cluster can be used, `problem_since` then None;
    `lag_seconds` is how far the watcher was behind."""

    __tablename__ = "cluster_health"

    name: Mapped[str] = mapped_column(primary_key=True)
    reported_at: Mapped[Timestamp]
    problem: Mapped[str]
    problem_since: Mapped[Timestamp | None]
    lag_seconds: Mapped[float]
