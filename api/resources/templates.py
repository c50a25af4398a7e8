"""Templates of tasks."""

from __future__ import annotations

from typing import Any

from api.blueprint import Blueprint, Call
from api.openapi import RequestBody
from api.schemas import flows as forms
from pipeline_core.auth.privileges import Privilege
from pipeline_core.database import transaction
from pipeline_core.flows.store import templates

blueprint = Blueprint("templates", __name__, url_prefix="/v1/templates", description="What tasks are made from.")

_TEMPLATE = {
    "job_template_name": "report",
    "image_name": "python:3",
    "job_template_command": "python3 /app/report.py",
    "job_template_args": {"report": {"--day": {"type": "date"}, "--verbose": {"type": "bool", "default": False}}},
}


@blueprint.operation(
    "POST",
    "",
    needs=Privilege.WRITE_FEATURE,
    body=RequestBody(forms.TEMPLATES, example={"report": _TEMPLATE}),
    payload=forms.TemplateNames,
    example={"templates": ["report"]},
)
def import_templates(call: Call) -> Any:
    """Import templates by name, all of them or none

    A template that exists is replaced; runs keep the definition that they were started with. Importing a built-in template
    changes its image, arguments and environment, not what it does.
    """
    with transaction() as session:
        return {"templates": templates.import_templates(session, call.body, call.actor)}


@blueprint.operation("GET", "", needs=Privilege.READ_JOB, payload=forms.ALL_TEMPLATES, example={"report": _TEMPLATE})
def template_list(call: Call) -> Any:
    """All templates by name, built-in ones included"""
    with transaction() as session:
        return templates.documents(session)


@blueprint.operation("GET", "/<name>", needs=Privilege.READ_JOB, payload=forms.TemplateForm, example=_TEMPLATE)
def template_detail(call: Call, name: str) -> Any:
    """One template"""
    with transaction() as session:
        return templates.document(session, name)


@blueprint.operation("DELETE", "/<name>", needs=Privilege.WRITE_FEATURE, error_statuses=(409,))
def delete(call: Call, name: str) -> None:
    """Delete a template that no flow uses; for a built-in name, the built-in template is restored"""
    with transaction() as session:
        templates.delete(session, name, call.actor)
