"""Reading plugins, putting them in order, and promoting shadows."""

from __future__ import annotations

from typing import Any

from api import paging
from api.blueprint import Blueprint, Call
from api.idempotency import KEY_HEADER, repeatable
from api.openapi import RequestBody
from api.paging import Page
from api.schemas import features as forms
from api.schemas.fields import OptionalPages
from api.schemas.shadows import Promotion, ShadowReport, ShadowReportQuery
from pipeline_core.auth.privileges import Privilege
from pipeline_core.database import transaction
from pipeline_core.features import registry
from pipeline_core.features.definition import EVERYONE
from pipeline_core.jobs import shadow_report
from pipeline_core.plugins.guard import health
from pipeline_core.plugins.types import Mode, PluginType

blueprint = Blueprint("plugins", __name__, url_prefix="/v1/plugins", description="The endpoints that are called.")

_EXAMPLE = {
    "beforeKey": "AccessGate.quota.platform",
    "afterKey": "AccessGate.budget.finance",
    "pluginType": "AccessGate",
}

_TYPE = {
    "in": "path",
    "name": "plugin_type",
    "required": True,
    "schema": {"type": "string", "enum": [*PluginType, EVERYONE]},
}


@blueprint.operation(
    "PUT",
    "/sequence",
    needs=Privilege.WRITE_FEATURE,
    body=RequestBody(forms.SequenceBody, example=_EXAMPLE),
    error_statuses=(404,),
)
def sequence(call: Call) -> None:
    """Let one plugin run before another

    Nothing changes if it does already. Else it moves to just before the other; all others keep their order.
    """
    with transaction() as session:
        registry.order(session, call.body, call.actor)


@blueprint.operation(
    "PUT",
    "/promote/<key>",
    needs=Privilege.WRITE_FEATURE,
    payload=Promotion,
    parameters=(KEY_HEADER,),
    error_statuses=(409,),
)
def promote(call: Call, key: str) -> Any:
    """Let a shadow take the place of the plugin that it names, which becomes its shadow

    Both in one transaction, so that each job is asked by one of them. Promoting that one again takes it back. For the owner of
    both features.
    """
    with transaction() as session:
        return registry.promote(session, key, call.actor, repeatable(call))


@blueprint.operation(
    "GET",
    "/shadow/<key>",
    needs=Privilege.READ_JOB,
    query=ShadowReportQuery,
    payload=ShadowReport,
)
def shadow(call: Call, key: str) -> Any:
    """What a plugin answered as a shadow, beside what was decided

    Only of jobs that the token may read. Values of environment variables whose names look secret are masked.
    """
    with transaction() as session:
        return shadow_report.report(session, key, call.actor, call.query.get("since"), call.query["most"])


@blueprint.operation("GET", "/detail/<key>", needs=Privilege.READ_FEATURE, payload=forms.PluginDetail)
def plugin_detail(call: Call, key: str) -> Any:
    """One plugin and its health"""
    with transaction() as session:
        found = registry.plugin_detail(session, key)
    return {**found, "health": health(key, Mode(found["mode"]))}


@blueprint.operation(
    "GET",
    "/list/<plugin_type>",
    needs=Privilege.READ_FEATURE,
    query=OptionalPages,
    payload=forms.PluginItem,
    paged=True,
    parameters=(_TYPE,),
)
def plugin_list(call: Call, plugin_type: str) -> Page:
    """The plugins of a type in running order, disabled ones too; `all` is every type, by stage"""
    with transaction() as session:
        return paging.page_or_all(registry.plugin_listing(session, plugin_type), call.query)
