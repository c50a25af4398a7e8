"""Named locks and leases in the database: advisory locks for a transaction, leases for some seconds."""

from __future__ import annotations

from datetime import timedelta
from enum import IntEnum

from sqlalchemy import Connection, delete, func, or_, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from pipeline_core.database.engine import transaction
from pipeline_core.database.models import Lease


class Lock(IntEnum):
    """Advisory locks of PostgreSQL. The values are arbitrary; nothing else in this database may use them."""

    MIGRATIONS = 7420931
    """Upgrade the schema."""
    FEED = 7420932
    """Give events their positions in the feed."""
    FLOWS = 7420933
    """Change flows or templates, which are checked against each other."""
    PORTS = 7420934
    """Lease ports of hosts."""


def lock(session: Session | Connection, name: Lock) -> None:
    """Wait for the lock, and hold it until the transaction ends."""
    session.execute(select(func.pg_advisory_xact_lock(int(name))))


def hold(name: str, owner: str, seconds: float) -> bool:
    """Take or renew the lease `name` for so many seconds. Returns whether `owner` holds it. Raises Unavailable."""
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
    """Release the lease before it expires, if `owner` holds it. Raises Unavailable."""
    with transaction() as session:
        session.execute(delete(Lease).where(Lease.name == name, Lease.owner == owner))
