"""Features and their plugins."""

from __future__ import annotations

from sqlalchemy import ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column, relationship

from pipeline_core.database.models.base import Base, Document, Serial, Timestamp


class Registry(Base):
    """A single row whose `version` grows with every change to features and plugins.

    Processes cache their compiled snapshot until the version changes; every change locks this row first, so that changes are
    serialized.
    """

    __tablename__ = "registry"

    id: Mapped[int] = mapped_column(primary_key=True, default=1)
    version: Mapped[int] = mapped_column(default=1)


class Feature(Base):
    """A bundle of plugins that is switched as one. `owner` is who registered it; `author` is a name for display.

    `authorization` and `signing_secret` are encrypted, or empty.
    """

    __tablename__ = "features"

    id: Mapped[Serial]
    name: Mapped[str] = mapped_column(unique=True)
    author: Mapped[str] = mapped_column(index=True)
    owner: Mapped[str]
    description: Mapped[str] = mapped_column(default="")
    enabled: Mapped[bool] = mapped_column(default=False)
    authorization: Mapped[str] = mapped_column(default="")
    signing_secret: Mapped[str] = mapped_column(default="")
    selector: Mapped[Document | None]
    created_at: Mapped[Timestamp]
    updated_at: Mapped[Timestamp]

    __table_args__ = (Index("ix_features_name_prefix", "name", postgresql_ops={"name": "text_pattern_ops"}),)

    plugins: Mapped[list[Plugin]] = relationship(
        back_populates="feature", cascade="all, delete-orphan", passive_deletes=True, order_by="Plugin.id"
    )


class Plugin(Base):
    """An endpoint that the service calls. `position` orders the plugins of one type; gaps mean nothing.

    `selector` is as given (null: none), `effective_selector` merged with the feature's. `shadow_of` is the key of the active
    plugin that a shadow (`mode`) is to replace, if it names one.
    """

    __tablename__ = "plugins"

    id: Mapped[Serial]
    feature_id: Mapped[int] = mapped_column(ForeignKey("features.id", ondelete="CASCADE"), index=True)
    key: Mapped[str] = mapped_column(unique=True)
    type: Mapped[str]
    call_address: Mapped[str]
    description: Mapped[str] = mapped_column(default="")
    selector: Mapped[Document | None]
    effective_selector: Mapped[Document]
    position: Mapped[int]
    timeout_seconds: Mapped[int]
    max_attempts: Mapped[int]
    patience_seconds: Mapped[int]
    failure_policy: Mapped[str]
    # Of gates: who resumes past them.
    resumer: Mapped[str]
    mode: Mapped[str]
    shadow_of: Mapped[str | None]

    feature: Mapped[Feature] = relationship(back_populates="plugins")

    __table_args__ = (Index(None, "type", "position"),)
