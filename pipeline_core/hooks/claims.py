"""Claim deliveries, and write the results of their attempts: many at a time, in one transaction."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from string import Template
from typing import Any

from sqlalchemy import Interval, Row, TextClause, bindparam, func, select, text, update
from sqlalchemy.orm import Session

from pipeline_core.common import failpoints
from pipeline_core.common.clock import now
from pipeline_core.common.failpoints import Point
from pipeline_core.database import again_if_contended, transaction
from pipeline_core.database.models import Delivery, DeliveryStatus, Event, Job, table
from pipeline_core.features import snapshot
from pipeline_core.features.snapshot import Snapshot
from pipeline_core.hooks.deliveries import can_start
from pipeline_core.hooks.feed_changes import noting
from pipeline_core.hooks.places import Subscriber
from pipeline_core.hooks.receivers import ALERTS, Receiver, receivers
from pipeline_core.hooks.sending import ClaimedDelivery, DeliveryResult, event_body
from pipeline_core.plugins.packet import Endpoint
from pipeline_core.settings import settings

_DELIVERY, _EVENT, _JOB = table(Delivery), table(Event), table(Job)
_FIRST = (
    select(_DELIVERY.c.id)
    .where(_DELIVERY.c.plugin_key == bindparam("key"), *can_start())
    .order_by(_DELIVERY.c.next_at)
    .limit(bindparam("most"))
    .with_for_update(skip_locked=True, of=_DELIVERY)
    .cte("first")
)
_CLAIMED = (
    update(_DELIVERY)
    .where(_DELIVERY.c.id == _FIRST.c.id)
    .values(
        lease_owner=bindparam("owner"),
        lease_until=func.now() + bindparam("lease", type_=Interval),
        attempts=_DELIVERY.c.attempts + 1,
    )
    .returning(*_DELIVERY.c)
    .cte("claimed")
)
_CLAIM = (
    select(
        *(_CLAIMED.c[name] for name in ("id", "event_id", "subject_id", "sequence", "body", "attempts", "give_up_at")),
        *(_EVENT.c[name] for name in ("state", "previous_state", "reason", "occurred_at")),
        *(_JOB.c[name] for name in ("user_id", "name", "kind", "namespace", "request_id", "traceparent")),
    )
    .select_from(
        _CLAIMED.outerjoin(_EVENT, _EVENT.c.id == _CLAIMED.c.event_id).outerjoin(_JOB, _JOB.c.id == _EVENT.c.job_id)
    )
    .order_by(_CLAIMED.c.next_at)
)
_WRITE: TextClause = text(
    Template(
        "WITH written AS (UPDATE deliveries SET status = new.status, last_answer = coalesce(new.answer, deliveries.last_answer),"
        " next_at = new.next_at, finished_at = CASE WHEN new.status <> 'waiting' THEN CAST(:moment AS timestamptz) END,"
        " attempts = new.attempts, lease_owner = NULL, lease_until = NULL"
        " FROM unnest(CAST(:id AS text[]), CAST(:owner AS text[]), CAST(:status AS text[]), CAST(:answer AS text[]),"
        " CAST(:next_at AS timestamptz[]), CAST(:attempts AS integer[]))"
        " AS new (id, owner, status, answer, next_at, attempts)"
        ' WHERE deliveries.id = new.id COLLATE "C" AND deliveries.lease_owner = new.owner'
        " RETURNING deliveries.*),"
        " noted AS ($noting WHERE written.status <> 'waiting')"
        " SELECT id, status FROM written"
    ).substitute(noting=noting("written"))
)
MAX_ANSWER = 500
"""Characters of a subscriber's answer that are stored."""


@dataclass(frozen=True, slots=True)
class Attempted:
    """A claimed delivery, and the result of its attempt."""

    delivery: ClaimedDelivery
    result: DeliveryResult


@again_if_contended
def write_and_claim(
    attempted: Sequence[Attempted], asked: Mapping[str, int], worker: str
) -> tuple[dict[str, DeliveryStatus], list[ClaimedDelivery]]:
    """Write these results, and claim at most so many deliveries to each of the subscribers, in one transaction.

    Only deliveries are claimed that are due and the first of their line, to subscribers that are enabled. Returns the new
    status of each delivery whose result was written, by its ID, and what was claimed. No result is written of a delivery whose
    lease another worker has taken meanwhile. Raises Unavailable.
    """
    with transaction() as session:
        written = _write(session, attempted) if attempted else {}
        claimed = _claim(session, asked, worker) if asked else []
        if attempted:
            failpoints.reach(Point.HOOK_FINISHING, *{each.delivery.state for each in attempted})
    return written, claimed


def _write(session: Session, attempted: Sequence[Attempted]) -> dict[str, DeliveryStatus]:
    moment = now()
    rows: list[tuple[Any, ...]] = []
    for each in attempted:
        delivery, result = each.delivery, each.result
        next_at = result.next_at(moment, delivery.give_up_at)
        given_up = result.status is DeliveryStatus.WAITING and next_at > delivery.give_up_at
        rows.append(
            (
                delivery.delivery_id,
                delivery.owner,
                str(DeliveryStatus.EXHAUSTED if given_up else result.status),
                None if result.answer is None else result.answer[:MAX_ANSWER],
                next_at,
                delivery.attempt if result.counted else delivery.attempt - 1,
            )
        )
    columns = zip(("id", "owner", "status", "answer", "next_at", "attempts"), zip(*rows, strict=True), strict=True)
    written = session.execute(_WRITE, {"moment": moment} | {name: list(values) for name, values in columns})
    return {row.id: DeliveryStatus(row.status) for row in written}


def _claim(session: Session, asked: Mapping[str, int], worker: str) -> list[ClaimedDelivery]:
    claimed: list[ClaimedDelivery] = []
    plugins, alerted = snapshot.current(session), receivers(settings())
    for key, most in asked.items():
        receiver = alerted.get(key)
        found = _receiving(receiver) if receiver else _subscriber(plugins, key)
        if found is None:
            continue
        subscriber, endpoint = found
        # A request takes at most the subscriber's time-out; what it waits for before and after takes a moment.
        lease = endpoint.timeout_seconds + settings().lease_seconds
        lease_end, owner = time.monotonic() + lease, f"{worker}/{uuid.uuid4().hex}"
        rows = session.execute(_CLAIM, {"key": key, "most": most, "owner": owner, "lease": timedelta(seconds=lease)})
        claimed += [_claimed(row, subscriber, endpoint, receiver, owner, lease_end) for row in rows]
    return claimed


def _receiving(receiver: Receiver) -> tuple[Subscriber, Endpoint]:
    return Subscriber(receiver.endpoint.key, ALERTS, ALERTS), receiver.endpoint


def _subscriber(plugins: Snapshot, key: str) -> tuple[Subscriber, Endpoint] | None:
    """Who is called, and where, for one attempt; None when there is no such plugin, or its feature is disabled."""
    plugin = plugins.get(key)
    if plugin is None:
        return None
    return Subscriber(key, plugin.feature, plugin.owner), replace(plugin.endpoint, max_attempts=1)


def _claimed(
    row: Row[Any],
    subscriber: Subscriber,
    endpoint: Endpoint,
    receiver: Receiver | None,
    owner: str,
    lease_end: float,
) -> ClaimedDelivery:
    document = row.body if row.event_id is None else event_body(row)
    return ClaimedDelivery(
        delivery_id=row.id,
        subject_id=row.subject_id,
        state=row.state or document["state"],
        subscriber=subscriber,
        endpoint=endpoint,
        receiver=receiver,
        attempt=row.attempts,
        give_up_at=row.give_up_at,
        document=document,
        request_id=row.request_id or "",
        owner=owner,
        lease_end=lease_end,
        traceparent=row.traceparent or "",
    )
