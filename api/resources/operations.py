"""What operators and their machines ask, without a token."""

from __future__ import annotations

from importlib.metadata import version as installed
from typing import Any

from flask import Response
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from api import metrics
from api.blueprint import Blueprint, Call
from api.schemas.operations import Version
from pipeline_core import health
from pipeline_core.errors import Unavailable

blueprint = Blueprint("operations", __name__, description="Whether and how the service runs.")

VERSION = installed("pipeline-service")

_registry = CollectorRegistry()
_registry.register(metrics.Recorded())


@blueprint.operation("GET", "/healthz", needs=None)
def healthz(call: Call) -> None:
    """The process lives"""


@blueprint.operation("GET", "/readyz", needs=None)
def readyz(call: Call) -> None:
    """Database, Redis and migrations are as they should be"""
    if missing := health.missing():
        not_ready = Unavailable("Not ready: " + "; ".join(f"{name}: {text}" for name, text in missing.items()) + ".")
        not_ready.errors = {name: [text] for name, text in missing.items()}
        raise not_ready


@blueprint.operation("GET", "/metrics", needs=None, streams="text/plain")
def prometheus(call: Call) -> Response:
    """Prometheus metrics"""
    return Response(generate_latest(_registry), content_type=CONTENT_TYPE_LATEST)


@blueprint.operation("GET", "/v1/version", needs=None, payload=Version, example={"version": "0.1.0", "api": "v1"})
def version(call: Call) -> Any:
    """What is running"""
    return {"version": VERSION, "api": "v1"}
