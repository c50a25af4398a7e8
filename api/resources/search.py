"""Finding jobs, runs, flows and features by how their ID or name begins."""

from __future__ import annotations

from typing import Any

from api.blueprint import Blueprint, Call
from api.schemas import search as forms
from pipeline_core.auth.privileges import Privilege
from pipeline_core.database import transaction
from pipeline_core.features import registry
from pipeline_core.flows.runs import queries as runs
from pipeline_core.flows.store import flows
from pipeline_core.jobs import search as jobs

blueprint = Blueprint("search", __name__, url_prefix="/v1/search", description="Finding things by how they begin.")


@blueprint.operation(
    "GET",
    "",
    needs=(Privilege.READ_JOB, Privilege.READ_FEATURE),
    query=forms.SearchQuery,
    payload=forms.Found,
)
def search(call: Call) -> Any:
    """Jobs, runs, flows and features whose ID or name begins with a text

    Jobs are found by ID and by name, runs by ID, flows and features by name. Of each kind there are at most `limit`. Jobs, runs
    and flows are looked for if the token has `read_job`, features if it has `read_feature`.
    """
    prefix, limit, actor = call.query["prefix"], call.query["limit"], call.actor
    found: dict[str, Any] = dict.fromkeys(("jobs", "runs", "flows", "features"), ())
    with transaction() as session:
        if actor.may(Privilege.READ_JOB):
            found["jobs"] = jobs.search(session, prefix, actor, limit=limit)
            found["runs"] = runs.search(session, prefix, actor, limit=limit)
            found["flows"] = flows.search(session, prefix, actor, limit=limit)
        if actor.may(Privilege.READ_FEATURE):
            found["features"] = registry.search(session, prefix, limit=limit)
    return found
