"""Importing, showing and deleting templates. The caller checks privileges.

A template is stored under its canonical name. An import adds a revision; runs continue with the documents that they were
started with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from pipeline_core.auth import audit
from pipeline_core.auth.actor import Actor
from pipeline_core.auth.audit import Action
from pipeline_core.common.clock import now
from pipeline_core.database.engine import to_json
from pipeline_core.database.models import FlowRow, TemplateRevision
from pipeline_core.errors import Conflict, Forbidden, NotFound
from pipeline_core.flows.definition.catalogue import BUILT_IN
from pipeline_core.flows.definition.flow import TEMPLATE_KEYS
from pipeline_core.flows.definition.templates import ALIASES, canonical_name, read_templates
from pipeline_core.flows.lookup import lock_definitions, template_documents
from pipeline_core.flows.notation.site import Site
from pipeline_core.settings import settings
from pipeline_core.validation.texts import shown

SHOWN_FLOWS = 5
"""Flows that an error message names."""


def import_templates(session: Session, raw: object, actor: Actor) -> list[str]:
    """Import the templates of a document `{name: template, …}`, parsed JSON, all of them or none; their names.

    Raises WrongParameter or MissingParameter with all validation errors; Forbidden for a template of somebody else's that the
    actor may not change.
    """
    names = list(read_templates(raw, Site.of(settings())))
    assert isinstance(raw, dict)
    lock_definitions(session)
    _require_own(session, map(canonical_name, names), actor)
    for name in names:
        _revise(session, canonical_name(name), raw[name], Action.TEMPLATE_IMPORT, actor)
    return names


def documents(session: Session) -> dict[str, Mapping[str, Any]]:
    """All templates that flows may use, by name, in the layout that they are imported in."""
    found = {**BUILT_IN, **template_documents(session)}
    return {name: found[name] for name in sorted(found)}


def document(session: Session, name: str) -> Mapping[str, Any]:
    """One template, in the layout that it is imported in. Raises NotFound."""
    try:
        return documents(session)[canonical_name(name)]
    except KeyError:
        raise _no_template(name) from None


def delete(session: Session, name: str, actor: Actor) -> None:
    """Delete an imported template. For a built-in name, the built-in template is restored.

    Raises NotFound; Conflict while a flow uses it, and for one that is built in and was not imported; Forbidden for a template
    of somebody else's that the actor may not change.
    """
    lock_definitions(session)
    known = canonical_name(name)
    _require_own(session, [known], actor)
    if known not in template_documents(session):
        if known in BUILT_IN:
            raise Conflict(f"The template {shown(name)} is built in, and nobody has imported another; it stays.")
        raise _no_template(name)
    if users := _users(session, known):
        more = ", …" if len(users) > SHOWN_FLOWS else ""
        raise Conflict(f"The template {shown(name)} is used by {', '.join(users[:SHOWN_FLOWS])}{more}.")
    _revise(session, known, None, Action.TEMPLATE_DELETE, actor)


def _require_own(session: Session, names: Iterable[str], actor: Actor) -> None:
    """Raises Forbidden when an ownOnly actor would change a template that everybody's flows may use already: one that is built
    in, or of which somebody else has made a revision."""
    if actor.own_only:
        theirs = select(TemplateRevision.name).where(TemplateRevision.created_by != actor.name)
        foreign = BUILT_IN.keys() | set(session.scalars(theirs))
        if taken := sorted(foreign.intersection(names)):
            raise Forbidden(
                f"An ownOnly token changes only templates that it has made: {shown(taken[0])} is of somebody else."
            )


def _revise(session: Session, name: str, document: Any, action: Action, actor: Actor) -> None:
    """Add a revision, unless it equals the newest, the order of arguments included, since it is that of the command line."""
    newest = session.scalars(
        select(TemplateRevision)
        .where(TemplateRevision.name == name)
        .order_by(TemplateRevision.revision.desc())
        .limit(1)
    ).one_or_none()
    if newest and to_json(newest.document) == to_json(document):
        return
    revision = newest.revision + 1 if newest else 1
    session.add(
        TemplateRevision(name=name, revision=revision, document=document, created_at=now(), created_by=actor.name)
    )
    before = {"revision": newest.revision} if newest and newest.document is not None else None
    audit.record(session, actor, action, name, before=before, after={"revision": revision} if document else None)


def _users(session: Session, name: str) -> list[str]:
    """The first flows that use the template, at most one more than are shown."""
    spellings = [name, *(alias for alias, known in ALIASES.items() if known == name)]
    task = func.json_array_elements(FlowRow.entry["tasks"]).table_valued("value").render_derived()
    uses = select(task.c.value).where(task.c.value.op("->>")(TEMPLATE_KEYS[0]).in_(spellings)).exists()
    query = select(FlowRow.document_key).where(uses).order_by(FlowRow.key).limit(SHOWN_FLOWS + 1)
    return list(session.scalars(query))


def _no_template(name: str) -> NotFound:
    return NotFound(f"There is no template {shown(name)}.")
