"""Reading stored flows and templates, for everything that starts runs or changes flows."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.dialects.postgresql import distinct_on
from sqlalchemy.orm import Session

from pipeline_core.auth.actor import Actor
from pipeline_core.database import locks
from pipeline_core.database.locks import Lock
from pipeline_core.database.models import FlowRow, TemplateRevision
from pipeline_core.errors import NotFound
from pipeline_core.flows.definition.catalogue import Catalogue
from pipeline_core.flows.definition.templates import read_templates
from pipeline_core.flows.notation.names import identity
from pipeline_core.flows.notation.site import Site
from pipeline_core.validation.texts import shown


def lock_definitions(session: Session) -> None:
    """Lock all flows and templates against changes by other transactions until this one ends.

    It is one advisory lock: flows are checked against templates, and new ones have no rows that could be locked.
    """
    locks.lock(session, Lock.FLOWS)


def find(session: Session, name: str, *, lock: bool = False, keep: bool = False) -> FlowRow:
    """The flow of that name, in either spelling. Raises NotFound.

    With `lock` its row is locked until the transaction ends; with `keep` it can only not be deleted until then.
    """
    query = select(FlowRow).where(FlowRow.key == identity(name))
    if lock or keep:
        query = query.with_for_update(read=keep, key_share=True)
    flow = session.scalar(query)
    if flow is None:
        raise NotFound(f"There is no flow {shown(name)}.")
    return flow


def visible(session: Session, name: str, actor: Actor, *, lock: bool = False, keep: bool = False) -> FlowRow:
    """As `find`. Raises NotFound also when the actor may not see the flow."""
    flow = find(session, name, lock=lock, keep=keep)
    if not actor.sees(flow.creator):
        raise NotFound(f"There is no flow {shown(name)}.")
    return flow


def template_documents(session: Session) -> dict[str, Mapping[str, Any]]:
    """The documents of the imported templates in force, by name."""
    newest = (
        select(TemplateRevision.name, TemplateRevision.document)
        .ext(distinct_on(TemplateRevision.name))
        .order_by(TemplateRevision.name, TemplateRevision.revision.desc())
    )
    return {name: document for name, document in session.execute(newest) if document is not None}


def templates_version(session: Session) -> tuple[int, datetime | None]:
    """What changes with each import and deletion of a template: how many revisions there are, and when the last was made."""
    revisions = select(func.count(), func.max(TemplateRevision.created_at))
    count, latest = session.execute(revisions).one()
    return count, latest


def catalogue(session: Session, site: Site) -> Catalogue:
    """The templates that flows may use now."""
    documents = template_documents(session)
    return Catalogue(read_templates(documents, site).values() if documents else ())
