"""Signs of life: each process that nobody calls (workers, beat) notes in the database that it is there.

Whoever gives a sign has shown more than that it runs: it reaches the database.
"""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from pipeline_core.database import transaction
from pipeline_core.database.models import Sign

EVERY_SECONDS = 15.0
"""How often a process gives a sign."""
FORGOTTEN_SECONDS = 3600.0
"""Who was silent for so long is not spoken of any more."""

BEAT = "beat"
WORKER = "worker/"
"""What the name of a worker's sign begins with; its node name follows."""


def give(name: str) -> None:
    """Note that `name` is alive now. Raises Unavailable."""
    with transaction() as session:
        session.execute(
            insert(Sign)
            .values(name=name, at=func.now())
            .on_conflict_do_update(index_elements=["name"], set_={"at": func.now()})
        )


def withdraw(name: str) -> None:
    """`name` has ended as it should, and is missed by nobody. Raises Unavailable."""
    with transaction() as session:
        session.execute(delete(Sign).where(Sign.name == name))


def silent(session: Session) -> dict[str, float]:
    """For how many seconds each name was not heard of."""
    age = func.extract("epoch", func.now() - Sign.at)
    return {name: float(seconds) for name, seconds in session.execute(select(Sign.name, age))}


def forget() -> int:
    """Drop the workers that are silent for long: their machines are gone. How many there were. Raises Unavailable."""
    with transaction() as session:
        gone = session.execute(
            delete(Sign)
            .where(Sign.name.startswith(WORKER), Sign.at < func.now() - timedelta(seconds=FORGOTTEN_SECONDS))
            .returning(Sign.name)
        )
        return len(gone.all())
