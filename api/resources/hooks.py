"""Deliveries of events to LifeHooks."""

from __future__ import annotations

from typing import Any

from api import paging
from api.blueprint import Blueprint, Call
from api.paging import Page
from api.schemas import features as forms
from pipeline_core.auth.privileges import Privilege
from pipeline_core.database import transaction
from pipeline_core.hooks import deliveries

blueprint = Blueprint("hooks", __name__, url_prefix="/v1/hooks", description="Events on their way to subscribers.")


@blueprint.operation(
    "GET",
    "/deliveries",
    needs=Privilege.READ_FEATURE,
    query=forms.DeliveryList,
    payload=forms.DeliveryItem,
    paged=True,
)
def delivery_list(call: Call) -> Page:
    """Deliveries with their attempts, their last answer and when they are due next"""
    limit, offset = paging.limit_and_offset(call.query)
    with transaction() as session:
        found, total = deliveries.listing(
            session,
            plugin=call.query.get("plugin"),
            status=call.query.get("status"),
            subject_id=call.query.get("jobID") or call.query.get("runID"),
            limit=limit,
            offset=offset,
            actor=call.actor,
        )
    return paging.page(found, total, call.query)


@blueprint.operation("POST", "/redeliver/<delivery_id>", needs=Privilege.WRITE_FEATURE, error_statuses=(409,))
def redeliver(call: Call, delivery_id: str) -> None:
    """Send a delivery again that its subscriber gave up, or whose retries ran out"""
    with transaction() as session:
        deliveries.redeliver(session, delivery_id, call.actor)


@blueprint.operation(
    "POST",
    "/redeliver",
    needs=Privilege.WRITE_FEATURE,
    query=forms.RedeliverQuery,
    payload=forms.Redelivered,
    error_statuses=(404,),
    example={"count": 7},
)
def redeliver_all(call: Call) -> Any:
    """Send all such deliveries of a plugin again"""
    with transaction() as session:
        return {"count": deliveries.redeliver_all(session, call.query["plugin"], call.actor)}
