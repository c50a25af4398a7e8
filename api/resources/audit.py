"""The audit log."""

from __future__ import annotations

from api import paging
from api.auth import ADMIN
from api.blueprint import Blueprint, Call
from api.paging import Page
from api.schemas.fields import Pages
from api.schemas.tokens import AuditItem
from pipeline_core.auth import audit
from pipeline_core.database import transaction

blueprint = Blueprint("audit", __name__, url_prefix="/v1/audit", description="Who changed what.")


@blueprint.operation("GET", "", needs=ADMIN, query=Pages, payload=AuditItem, paged=True)
def audit_list(call: Call) -> Page:
    """Changes to tokens, features, plugins and jobs, newest first"""
    limit, offset = paging.limit_and_offset(call.query)
    with transaction() as session:
        found, total = audit.listing(session, limit=limit, offset=offset)
    return paging.page(found, total, call.query)
