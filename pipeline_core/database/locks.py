"""Holding a role that one process at a time may have."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import delete, func, or_
from sqlalchemy.dialects.postgresql import insert

from pipeline_core.database.engine import transaction
from pipeline_core.database.models import Lease


def hold(name: str, owner: str, seconds: float) -> bool:
    """Take or renew the lease for so long; whether `owner` has it now. Raises Unavailable."""
    until = func.now() + timedelta(seconds=seconds)
    with transaction() as session:
        held = session.execute(
            insert(Lease)
            .values(name=name, owner=owner, until=until)
            .on_conflict_do_update(
                index_elements=["name"],
                set_={"owner": owner, "until": until},
                where=or_(Lease.owner == owner, Lease.until < func.now()),
            )
            .returning(Lease.name)
        ).one_or_none()
    return held is not None


def release(name: str, owner: str) -> None:
    """Give the lease up before its time, if `owner` has it. Raises Unavailable."""
    with transaction() as session:
        session.execute(delete(Lease).where(Lease.name == name, Lease.owner == owner))
