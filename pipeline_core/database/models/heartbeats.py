"""Heartbeats of the service's processes."""

from __future__ import annotations

from sqlalchemy.orm import Mapped, mapped_column

from pipeline_core.database.models.base import Base, Timestamp


class Heartbeat(Base):
    """When a process last wrote its heartbeat, or a queue probe last arrived."""

    __tablename__ = "heartbeats"

    name: Mapped[str] = mapped_column(primary_key=True)
    at: Mapped[Timestamp]
