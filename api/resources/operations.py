"""Health checks, version, status, and the rotation of secrets."""

from __future__ import annotations

from importlib.metadata import version as installed
from typing import Any

from api.auth import ADMIN
from api.blueprint import Blueprint, Call
from api.schemas.operations import Ready, Rotated, Status, Version
from pipeline_core.auth.privileges import Privilege
from pipeline_core.database import transaction
from pipeline_core.errors import Unavailable
from pipeline_core.features import registry
from pipeline_core.operations import health_checks, readiness
from pipeline_core.operations import status as service_status
from pipeline_core.settings import settings
from workers import queues

blueprint = Blueprint("operations", __name__, description="Whether and how the service runs.")

VERSION = installed("pipeline-service")


@blueprint.operation("GET", "/healthz", needs=None)
def healthz(call: Call) -> None:
    """Whether the process runs (liveness)"""


@blueprint.operation("GET", "/readyz", needs=None, payload=Ready, example={"cluster": ""})
def readyz(call: Call) -> Any:
    """Whether the database, its schema and Redis can be used (readiness)

    A cluster that cannot be used is named, and is no reason for 503: jobs are accepted, and wait for it.
    """
    if missing := readiness.missing():
        not_ready = Unavailable("Not ready: " + "; ".join(f"{name}: {text}" for name, text in missing.items()) + ".")
        not_ready.errors = {name: [text] for name, text in missing.items()}
        raise not_ready
    return {"cluster": readiness.cluster_problem()}


@blueprint.operation("GET", "/v1/version", needs=None, payload=Version, example={"version": "0.1.0", "api": "v1"})
def version(call: Call) -> Any:
    """The version that is running"""
    return {"version": VERSION, "api": "v1"}


@blueprint.operation("GET", "/v1/status", needs=Privilege.READ_JOB, payload=Status)
def status(call: Call) -> Any:
    """The state of the service: jobs, steps, queues, plugins, workers, and problems

    The numbers count the jobs of all users, for every token; no job is named.
    """
    return health_checks.payload(service_status.read(queues.lengths), settings())


@blueprint.operation("PUT", "/v1/secrets/rotate", needs=ADMIN, payload=Rotated, example={"count": 3})
def rotate_secrets(call: Call) -> Any:
    """Re-encrypt all stored secrets with the first key of `PIPELINE_SECRET_KEY`"""
    with transaction() as session:
        return {"count": registry.rotate_secrets(session, call.actor)}
