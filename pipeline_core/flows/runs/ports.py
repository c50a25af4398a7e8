"""Ports of the hosts that tasks are lent, so that no two live ones have the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import delete, exists, func, insert, select
from sqlalchemy.orm import Session

from pipeline_core.database.locks import Lock, lock
from pipeline_core.database.models import Cleanup, Job, PortLease
from pipeline_core.settings import settings


def choose(session: Session, count: int) -> Sequence[int]:
    """So many free ports in a row, which stay free until the transaction ends; none when there are not so many.

    Those of jobs that have ended, and of which nothing is left in the cluster, are free again.
    """
    if not count:
        return ()
    lock(session, Lock.PORTS)
    session.execute(
        delete(PortLease).where(
            exists().where(
                Job.id == PortLease.job_id,
                Job.finished_at.is_not(None),
                func.coalesce(Job.cleanup, Cleanup.DONE) == Cleanup.DONE,
            )
        )
    )
    return gap(session.scalars(select(PortLease.port).order_by(PortLease.port)), count, settings().port_range)


def lend(session: Session, ports: Sequence[int], job_id: str) -> None:
    """Lend the chosen ports to a job, whose row is there."""
    if ports:
        session.execute(insert(PortLease), [{"port": port, "job_id": job_id} for port in ports])


def gap(taken: Iterable[int], count: int, ports: range) -> Sequence[int]:
    """The first so many of the ports in a row that are not taken, which come in order; none if there are not so many."""
    first = ports.start
    for port in taken:
        if port - first >= count:
            break
        first = max(first, port + 1)
    return range(first, first + count) if first + count <= ports.stop else ()
