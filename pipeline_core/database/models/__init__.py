"""The tables, one module for each aggregate. Importing this package registers all of them in `Base.metadata`."""

from pipeline_core.database.models.audit import AuditEntry
from pipeline_core.database.models.base import Base, table
from pipeline_core.database.models.events import POSITIONS, Delivery, DeliveryStatus, Event, FeedChange, FeedKind
from pipeline_core.database.models.features import Feature, Plugin, Registry
from pipeline_core.database.models.flows import (
    Backfill,
    BackfillState,
    FlowRow,
    PortLease,
    RunDefinitionRow,
    RunRow,
    RunSignal,
    TaskAttempt,
    TaskRunRow,
    TemplateRevision,
)
from pipeline_core.database.models.heartbeats import ClusterHealthRow, Heartbeat
from pipeline_core.database.models.jobs import (
    Cleanup,
    IdempotencyKey,
    Job,
    JobDocument,
    JobResult,
    Replica,
    ShadowAnswer,
    Step,
    TrailRow,
)
from pipeline_core.database.models.leases import Lease
from pipeline_core.database.models.tokens import AdminPassword, BrowserSession, Token

__all__ = [
    "POSITIONS",
    "AdminPassword",
    "AuditEntry",
    "Backfill",
    "BackfillState",
    "Base",
    "BrowserSession",
    "Cleanup",
    "ClusterHealthRow",
    "Delivery",
    "DeliveryStatus",
    "Event",
    "Feature",
    "FeedChange",
    "FeedKind",
    "FlowRow",
    "Heartbeat",
    "IdempotencyKey",
    "Job",
    "JobDocument",
    "JobResult",
    "Lease",
    "Plugin",
    "PortLease",
    "Registry",
    "Replica",
    "RunDefinitionRow",
    "RunRow",
    "RunSignal",
    "ShadowAnswer",
    "Step",
    "TaskAttempt",
    "TaskRunRow",
    "TemplateRevision",
    "Token",
    "TrailRow",
    "table",
]
