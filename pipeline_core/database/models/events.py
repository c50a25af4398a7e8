"""Events: every change of a job's state; what else is in the feed; and deliveries: each event, and each alert, for each
subscriber."""

from __future__ import annotations

from enum import StrEnum

from sqlalchemy import BigInteger, ForeignKey, Index, Sequence, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from pipeline_core.database.models.base import Base, Document, Id, Serial, Timestamp


class DeliveryStatus(StrEnum):
    """`waiting` until the subscriber answers OK (`delivered`) or EX (`exception`), the time for retries is over
    (`exhausted`), or the feature is deleted (`dropped`)."""

    WAITING = "waiting"
    DELIVERED = "delivered"
    EXCEPTION = "exception"
    EXHAUSTED = "exhausted"
    DROPPED = "dropped"


class FeedKind(StrEnum):
    """What an entry of the feed is about: an event (the state of a job), or a `FeedChange`."""

    STATE = "state"
    STAGE = "stage"
    RUN = "run"
    DELIVERY = "delivery"


POSITIONS = Sequence("event_positions", metadata=Base.metadata)
"""The sequence of positions in the feed. It is independent of the table, so no position is used twice."""


class Event(Base):
    """One change of a job's state, written in the transaction that makes it. `sequence` counts within the job, from 1.

    `position` is the event's place in the feed of all events, given after the commit (`pipeline_core.jobs.feed`).
    """

    __tablename__ = "events"

    id: Mapped[Serial]
    job_id: Mapped[Id] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"))
    sequence: Mapped[int]
    state: Mapped[str]
    previous_state: Mapped[str] = mapped_column(default="")
    reason: Mapped[str] = mapped_column(default="")
    actor: Mapped[str] = mapped_column(default="")
    occurred_at: Mapped[Timestamp]
    position: Mapped[int | None] = mapped_column(BigInteger)

    __table_args__ = (
        UniqueConstraint("job_id", "sequence"),
        # Partial: events without a position are found by the other index.
        Index("ix_events_position", "position", unique=True, postgresql_where=text("position IS NOT NULL")),
        Index("ix_events_unplaced", "id", postgresql_where=text("position IS NULL")),
    )


class FeedChange(Base):
    """A change that is in the feed beside the events: of a job's stage, of a run, or of a delivery's status.

    `id` is of the sequence of the events' IDs, so that both have one order. `document` is what the feed shows. Those who see only
    what is their own see it if they are its `user_id` or its `creator`.
    """

    __tablename__ = "feed_changes"

    id: Mapped[Serial] = mapped_column(server_default=text("nextval('events_id_seq')"), autoincrement=False)
    kind: Mapped[str]
    user_id: Mapped[str]
    creator: Mapped[str] = mapped_column(default="")
    document: Mapped[Document]
    occurred_at: Mapped[Timestamp]
    position: Mapped[int | None] = mapped_column(BigInteger)

    __table_args__ = (
        Index("ix_feed_changes_position", "position", unique=True, postgresql_where=text("position IS NOT NULL")),
        Index("ix_feed_changes_unplaced", "id", postgresql_where=text("position IS NULL")),
    )


class Delivery(Base):
    """One event for one subscriber. `id` is the `webhook-id`: the same on every attempt.

    `subject_id` is the job of the event, or the run of an alert, which has no event and has its `body` from the beginning.
    Within a subject and a subscriber, deliveries are sent in the order of `sequence`, one after the other.
    """

    __tablename__ = "deliveries"

    id: Mapped[Id] = mapped_column(primary_key=True)
    event_id: Mapped[int | None] = mapped_column(ForeignKey("events.id", ondelete="CASCADE"))
    subject_id: Mapped[Id]
    sequence: Mapped[int]
    plugin_key: Mapped[str]
    body: Mapped[Document | None]
    status: Mapped[str] = mapped_column(default=DeliveryStatus.WAITING)
    attempts: Mapped[int] = mapped_column(default=0)
    last_answer: Mapped[str] = mapped_column(default="")
    created_at: Mapped[Timestamp]
    next_at: Mapped[Timestamp]
    give_up_at: Mapped[Timestamp]
    finished_at: Mapped[Timestamp | None]
    lease_owner: Mapped[str | None]
    lease_until: Mapped[Timestamp | None]

    __table_args__ = (
        Index("ix_deliveries_due", "plugin_key", "next_at", postgresql_where=text("status = 'waiting'")),
        Index(None, "subject_id", "plugin_key", "sequence"),
        Index(None, "plugin_key", "status", "id"),
        Index(None, "event_id"),
    )
