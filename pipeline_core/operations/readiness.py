"""Readiness: whether the database, its schema and Redis are usable."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pipeline_core.common.redis import answers
from pipeline_core.database import revisions, transaction
from pipeline_core.errors import PipelineError
from pipeline_core.operations import cluster_health
from pipeline_core.settings import settings


def missing() -> dict[str, str]:
    """The dependencies that are not ready (`database`, `redis`), each with what is wrong; empty when all are."""
    return {name: problem for name, check in _CHECKS.items() if (problem := check())}


def cluster_problem() -> str:
    """Why the cluster cannot be used, and since when, by the watcher's last report; empty when it can. Raises Unavailable."""
    with transaction() as session:
        return cluster_health.read(session, settings().cluster_name).sentence


def _database() -> str | None:
    try:
        with transaction() as session:
            revision = revisions.current(session.connection())
    except PipelineError as error:
        return error.message.rstrip(".")
    if revision != revisions.head() and not revisions.is_newer(revision):
        return f"its schema is at {revision or 'nothing'}, this version needs {revisions.head()}"
    return None


def _redis() -> str | None:
    url = settings().redis_url
    if not url:
        return "PIPELINE_REDIS_URL is not set"
    return None if answers(url) else "it does not answer"


_CHECKS: Mapping[str, Callable[[], str | None]] = {"database": _database, "redis": _redis}
