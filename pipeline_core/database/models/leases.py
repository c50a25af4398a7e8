"""Leases of roles that one process at a time may have, such as that of the active watcher."""

from __future__ import annotations

from sqlalchemy.orm import Mapped, mapped_column

from pipeline_core.database.models.base import Base, Timestamp


class Lease(Base):
    """`owner` has the role until `until`, unless it renews the lease before."""

    __tablename__ = "leases"

    name: Mapped[str] = mapped_column(primary_key=True)
    owner: Mapped[str]
    until: Mapped[Timestamp]
