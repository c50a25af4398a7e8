"""Alerts: telling one receiver, the installation's own, of the states of runs that somebody wants to hear of.

They go the way of all deliveries: tried again, in order for each run, given up at last, listed and sent again.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from pipeline_core.database.models import Delivery
from pipeline_core.hooks import owing
from pipeline_core.plugins.packet import Endpoint
from pipeline_core.plugins.types import PluginType
from pipeline_core.settings import Settings, settings

RECEIVER = "alerts"
"""What the receiver is called where a plugin's key would stand; keys of plugins have dots."""


def receiver(limits: Settings) -> Endpoint | None:
    """Where alerts go; None when nobody is to hear of them."""
    if not limits.alert_url:
        return None
    return Endpoint(
        key=RECEIVER,
        type=PluginType.LIFE_HOOK,
        address=limits.alert_url,
        authorization=limits.alert_authorization,
        signing_secret=limits.alert_signing_secret,
        max_attempts=1,
    )


def owe(session: Session, run_id: str, state: str, body: Mapping[str, Any], moment: datetime) -> None:
    """Tell the receiver that the run is in `state` now, in the transaction that brings it there.

    Once for each state of a run, however often the run comes to it; nothing when there is no receiver.
    """
    if receiver(settings()) is None:
        return
    earlier = select(Delivery.body).where(Delivery.subject_id == run_id, Delivery.plugin_key == RECEIVER)
    told = [(known or {}).get("state") for known in session.scalars(earlier)]
    if state in told:
        return
    sequence = len(told) + 1
    owing.owe(session, run_id, sequence, RECEIVER, moment, body={**body, "state": state, "sequence": sequence})
