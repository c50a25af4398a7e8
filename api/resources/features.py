"""Registering, switching and reading features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from werkzeug.routing import BaseConverter

from api import paging
from api.blueprint import Blueprint, Call
from api.openapi import RequestBody
from api.paging import Page
from api.schemas import features as forms
from api.schemas.fields import OptionalPages
from api.schemas.what_if import FeatureWhatIf, WhatIfQuery
from pipeline_core.auth.actor import Actor
from pipeline_core.auth.privileges import Privilege
from pipeline_core.database import transaction
from pipeline_core.features import registry
from pipeline_core.features.definition import RESERVED_NAMES
from pipeline_core.jobs.what_if import what_if as stored_jobs_matched

blueprint = Blueprint("features", __name__, url_prefix="/v1/features", description="Bundles of plugins.")


class FeatureNameConverter(BaseConverter):
    """A feature's name in a path: not one of the words that other paths have in its place.

    Otherwise those paths would allow DELETE, too.
    """

    regex = f"(?!(?:{'|'.join(sorted(RESERVED_NAMES))})$)[^/]+"
    part_isolating = True


_EXAMPLE = {
    "name": "quota",
    "author": "platform",
    "description": "Lets nobody run more than their share.",
    "jobSelector": {"conditions": [], "expression": "*"},
    "plugins": [{"pluginType": "AccessGate", "callAddress": "http://quota.plugins.svc/gate"}],
}


def _owners_only(actor: Actor, feature: Mapping[str, Any]) -> None:
    with transaction() as session:
        registry.require_owner(session, feature.get("name"), actor)


REGISTRATION = RequestBody(forms.FeatureBody, example=_EXAMPLE, permit=_owners_only)


@blueprint.operation("POST", "", needs=Privilege.WRITE_FEATURE, body=REGISTRATION, error_statuses=(409,))
def register(call: Call) -> None:
    """Register a feature, or replace it as a whole"""
    with transaction() as session:
        registry.register(session, call.body, call.actor)


@blueprint.operation(
    "POST",
    "/what-if",
    needs=Privilege.READ_JOB,
    body=RequestBody(forms.FeatureBody, example=_EXAMPLE),
    query=WhatIfQuery,
    payload=FeatureWhatIf,
    error_statuses=(404,),
)
def what_if(call: Call) -> Any:
    """Which of the stored jobs a feature would take part in

    Takes what a registration takes, registers nothing and calls no plugin. Jobs are matched by the header that they were
    submitted with; they are compared with those that the registered feature of this name matches, on or off.
    """
    query = call.query
    found = stored_jobs_matched(call.body, call.actor, query.get("startAt"), query.get("endAt"), query.get("jobID"))
    return found.to_json()


@blueprint.operation("DELETE", "/<feature:name>", needs=Privilege.WRITE_FEATURE)
def delete(call: Call, name: str) -> None:
    """Delete a feature; stage tasks that are running finish with the plugins that they began with"""
    with transaction() as session:
        registry.delete(session, name, call.actor)


@blueprint.operation("PUT", "/turn-on/<name>", needs=Privilege.WRITE_FEATURE)
def turn_on(call: Call, name: str) -> None:
    """Switch a feature on: its plugins take part in jobs"""
    with transaction() as session:
        registry.switch(session, name, True, call.actor)


@blueprint.operation("PUT", "/turn-off/<name>", needs=Privilege.WRITE_FEATURE)
def turn_off(call: Call, name: str) -> None:
    """Switch a feature off: its plugins take no part in jobs"""
    with transaction() as session:
        registry.switch(session, name, False, call.actor)


@blueprint.operation(
    "GET", "/list/<author>", needs=Privilege.READ_FEATURE, query=OptionalPages, payload=forms.FeatureItem, paged=True
)
def feature_list(call: Call, author: str) -> Page:
    """An author's features by name; `all` is everyone's"""
    with transaction() as session:
        return paging.page_or_all(registry.listing(session, author), call.query)


@blueprint.operation("GET", "/detail/<name>", needs=Privilege.READ_FEATURE, payload=forms.FeatureItem)
def feature_detail(call: Call, name: str) -> Any:
    """One feature with its plugins"""
    with transaction() as session:
        return registry.detail(session, name)
