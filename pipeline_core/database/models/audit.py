"""The audit log."""

from __future__ import annotations

from sqlalchemy import Index
from sqlalchemy.orm import Mapped, mapped_column

from pipeline_core.database.models.base import Base, Document, Serial, Timestamp


class AuditEntry(Base):
    """Who changed what, when, and from where. Rows are added and never changed; secrets are not in them."""

    __tablename__ = "audit"

    id: Mapped[Serial]
    at: Mapped[Timestamp]
    actor: Mapped[str]
    token_id: Mapped[str] = mapped_column(default="")
    address: Mapped[str] = mapped_column(default="")
    request_id: Mapped[str] = mapped_column(default="")
    action: Mapped[str]
    target: Mapped[str]
    reason: Mapped[str] = mapped_column(default="")
    before: Mapped[Document | None]
    after: Mapped[Document | None]

    __table_args__ = (Index(None, "target", "id"), Index(None, "at"))
