"""Signs of life of the service's processes."""

from __future__ import annotations

from sqlalchemy.orm import Mapped, mapped_column

from pipeline_core.database.models.base import Base, Timestamp


class Sign(Base):
    """When a process, or the canary, was last heard of."""

    __tablename__ = "signs"

    name: Mapped[str] = mapped_column(primary_key=True)
    at: Mapped[Timestamp]
