"""Creating, replacing, importing, exporting and deleting flows. The caller checks privileges.

Every change locks all definitions, so that changes come one after the other, and then the flow's row, which starting a run of
it locks too. An actor who may see only its own flows cannot find or replace flows of others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, exists, func, select
from sqlalchemy import delete as sql_delete
from sqlalchemy.orm import Session

from pipeline_core.auth import audit
from pipeline_core.auth.actor import Actor
from pipeline_core.auth.audit import Action
from pipeline_core.common.clock import now, rfc3339
from pipeline_core.common.ids import new_flow_id
from pipeline_core.database.counting import count_up_to
from pipeline_core.database.models import Delivery, FlowRow, RunRow
from pipeline_core.errors import Conflict, Forbidden, WrongParameter
from pipeline_core.flows import lookup
from pipeline_core.flows.definition import documents
from pipeline_core.flows.definition.catalogue import Catalogue
from pipeline_core.flows.definition.documents import Creators, FlowDefinition
from pipeline_core.flows.definition.flow import flow_layout, parse_stored
from pipeline_core.flows.notation.names import identity
from pipeline_core.flows.notation.site import Site
from pipeline_core.flows.schedules import schedule_state
from pipeline_core.settings import settings
from pipeline_core.validation.texts import shown

Read = TypeVar("Read")


def create(session: Session, raw: object, actor: Actor) -> str:
    """Create a flow from one entry of an import document, parsed JSON; its name.

    Raises WrongParameter or MissingParameter with all validation errors; Conflict when there is a flow of
    that name.
    """
    definition = _read_entry(session, raw, actor)
    if other := _by_key(session, [definition.flow.key]):
        if not actor.sees(other[definition.flow.key].creator):
            raise Conflict(f"The name {shown(definition.flow.name)} is taken.")
        raise Conflict(f"There is a flow {shown(other[definition.flow.key].document_key)} already; PUT replaces it.")
    _add(session, definition, actor, imported=False)
    return definition.flow.name


def check(session: Session, raw: object, actor: Actor, most: int) -> dict[str, Any]:
    """What is wrong with one entry of an import document, by path, and the layout of its tasks with at most about `most` nodes;
    None where their order is not known. Stores nothing. Raises WrongParameter for what is no object at all."""
    if not isinstance(raw, dict):
        raise WrongParameter(f"The body must be an object with `pipeline` and `tasks`, not {shown(raw)}.")
    site = Site.of(settings())
    flow, problems = documents.examine_entry(raw, lookup.catalogue(session, site), site, _Creators(session, actor))
    is_known = flow is not None and len(flow.dag) == len(flow.tasks) > 0
    return {
        "valid": not problems,
        "errors": problems.by_path,
        "layout": flow_layout(flow, most) if flow is not None and is_known else None,
    }


def layout_of(session: Session, name: str, actor: Actor, most: int) -> dict[str, Any]:
    """The layout of a flow, with at most about `most` nodes. Raises NotFound."""
    return flow_layout(parse_stored(lookup.visible(session, name, actor).entry), most)


def replace(session: Session, name: str, raw: object, actor: Actor) -> None:
    """Replace a flow's definition; its creator stays, and so do its runs, with the definition they were started with.

    Raises WrongParameter or MissingParameter with all validation errors, NotFound.
    """
    definition = _read_entry(session, raw, actor)
    if definition.flow.key != identity(name):
        problem = f"is {shown(definition.flow.name)}, which does not agree with the path's {shown(name)}"
        raise WrongParameter(f"pipeline.name: {problem}", errors={"pipeline.name": [problem]})
    row = _lock_visible(session, name, actor)
    # The document's key is as it was imported: an entry has none.
    _replace(session, row, definition, row.document_key, actor, imported=False)


def import_document(session: Session, raw: object, actor: Actor) -> dict[str, list[str]]:
    """Import the flows of an import document, parsed JSON, all of them or none; the names of these `flows`, in its order, and
    of those whose schedule was `paused` by that, if any.

    An existing flow is replaced, as by `replace`; schedules that are new or have changed are paused. Raises
    WrongParameter or MissingParameter with all validation errors; Forbidden for another's flow.
    """
    definitions = _read_and_lock(session, actor, partial(documents.read_document, raw))
    rows = _by_key(session, list(definitions))
    for row in rows.values():
        if not actor.sees(row.creator):
            raise Forbidden(f"The name {shown(definitions[row.key].flow.name)} is taken.")
    paused = []
    for key, definition in definitions.items():
        was_paused = key in rows and rows[key].paused
        if key in rows:
            row = rows[key]
            _replace(session, row, definition, definition.key, actor, imported=True)
        else:
            row = _add(session, definition, actor, imported=True)
        if row.paused and not was_paused:
            paused.append(definition.flow.name)
    imported = {"flows": [definition.flow.name for definition in definitions.values()]}
    return {**imported, "paused": paused} if paused else imported


def export(session: Session, names: Sequence[str], actor: Actor) -> dict[str, Any]:
    """The import document of these flows, in this order, or of all by name. Raises NotFound for an unknown name."""
    if names:
        rows = [lookup.visible(session, name, actor) for name in dict.fromkeys(map(identity, names))]
    else:
        rows = list(session.scalars(select(FlowRow).where(*_visible_to(actor)).order_by(FlowRow.key.collate("C"))))
    return {row.document_key: row.entry for row in rows}


def delete(session: Session, name: str, actor: Actor) -> None:
    """Delete a flow with the history of its runs. Raises NotFound; Conflict while a run of it has not ended."""
    lookup.lock_definitions(session)
    # The lock also prevents new runs: a run's row references the flow's.
    row = _lock_visible(session, name, actor)
    runs = RunRow.flow_id == row.id
    session.execute(sql_delete(Delivery).where(Delivery.subject_id.in_(select(RunRow.id).where(runs))))
    session.execute(sql_delete(RunRow).where(runs, RunRow.finished_at.is_not(None)))
    if session.scalar(select(exists().where(runs))):
        raise Conflict(f"The flow {shown(row.document_key)} has runs that have not ended; stop them first.")
    audit.record(session, actor, Action.FLOW_DELETE, row.key, before=_audit_fields(row))
    session.delete(row)


def listing(session: Session, actor: Actor, *, limit: int, offset: int) -> tuple[list[dict[str, Any]], int]:
    """A page of the flows that the actor sees, by name, and how many there are (`count_up_to`)."""
    found = _summaries(session, _visible_to(actor), limit=limit, offset=offset)
    return found, count_up_to(session, select(FlowRow.id).where(*_visible_to(actor)))


def search(session: Session, prefix: str, actor: Actor, *, limit: int) -> list[dict[str, Any]]:
    """At most `limit` flows whose name, in either spelling, begins with `prefix`, by name."""
    named = FlowRow.key.startswith(identity(prefix), autoescape=True)
    return _summaries(session, [named, *_visible_to(actor)], limit=limit)


def _summaries(
    session: Session, conditions: Sequence[ColumnElement[bool]], *, limit: int, offset: int = 0
) -> list[dict[str, Any]]:
    pipeline = FlowRow.entry["pipeline"]
    query = select(
        FlowRow.creator,
        FlowRow.created_at,
        FlowRow.updated_at,
        FlowRow.paused,
        FlowRow.next_at,
        FlowRow.schedule_error,
        *(pipeline[name].as_string().label(name) for name in ("name", "describe", "project")),
        *(pipeline[name].as_string().label(name) for name in ("schedule_type", "cron_time", "timezone")),
        func.json_array_length(FlowRow.entry["tasks"]).label("tasks"),
    ).where(*conditions)
    rows = session.execute(query.order_by(FlowRow.key.collate("C")).limit(limit).offset(offset))
    return [
        {
            "name": row.name,
            "describe": row.describe or "",
            "project": row.project or "public",
            "creator": row.creator,
            "tasks": row.tasks,
            "schedule": row.cron_time if row.schedule_type == "crontab" else None,
            "timezone": row.timezone or "UTC",
            "paused": row.paused,
            "nextAt": rfc3339(row.next_at),
            "fault": row.schedule_error,
            "createdAt": rfc3339(row.created_at),
            "updatedAt": rfc3339(row.updated_at),
        }
        for row in rows
    ]


def _read_entry(session: Session, raw: object, actor: Actor) -> FlowDefinition:
    return _read_and_lock(session, actor, partial(documents.read_entry, raw))


def _read_and_lock(session: Session, actor: Actor, read: Callable[[Catalogue, Site, Creators], Read]) -> Read:
    """What `read` makes of a document, with all definitions locked.

    Reading takes as long as the document is large, and others wait for the lock: so it is taken afterwards, and the document
    is read again only if what it was checked against has changed in between.
    """
    site = Site.of(settings())
    version, creators = lookup.templates_version(session), _Creators(session, actor)
    found = read(lookup.catalogue(session, site), site, creators)
    lookup.lock_definitions(session)
    if lookup.templates_version(session) == version and creators.unchanged():
        return found
    return read(lookup.catalogue(session, site), site, _Creators(session, actor))


class _Creators:
    """The creator of a stored flow that the actor sees; else the actor."""

    def __init__(self, session: Session, actor: Actor) -> None:
        self._session, self._actor = session, actor
        self._found: dict[str, str] = {}

    def __call__(self, key: str) -> str:
        self._found[key] = self._read(key)
        return self._found[key]

    def unchanged(self) -> bool:
        """Whether all creators that were asked for are the same now."""
        return all(self._read(key) == creator for key, creator in self._found.items())

    def _read(self, key: str) -> str:
        query = select(FlowRow.creator).where(FlowRow.key == key, *_visible_to(self._actor))
        return self._session.scalar(query) or self._actor.name


def _lock_visible(session: Session, name: str, actor: Actor) -> FlowRow:
    """The flow, locked: no other transaction changes it or starts a run of it until this one ends."""
    lookup.visible(session, name, actor)
    return _by_key(session, [identity(name)])[identity(name)]


def _by_key(session: Session, keys: Sequence[str]) -> dict[str, FlowRow]:
    """The flows of these keys, locked in one order."""
    query = select(FlowRow).where(FlowRow.key.in_(keys)).order_by(FlowRow.id).with_for_update()
    return {row.key: row for row in session.scalars(query.execution_options(populate_existing=True))}


def _add(session: Session, definition: FlowDefinition, actor: Actor, *, imported: bool) -> FlowRow:
    moment = now()
    row = FlowRow(
        id=new_flow_id(moment),
        key=definition.flow.key,
        document_key=definition.key,
        entry=definition.entry,
        creator=actor.name,
        created_at=moment,
        updated_at=moment,
        paused=False,
    )
    schedule_state.apply_definition(row, None, definition.flow, moment, imported=imported)
    session.add(row)
    audit.record(session, actor, Action.FLOW_CREATE, row.key, after=_audit_fields(row))
    return row


def _replace(
    session: Session, row: FlowRow, definition: FlowDefinition, document_key: str, actor: Actor, *, imported: bool
) -> None:
    moment = now()
    before, audited = parse_stored(row.entry), _audit_fields(row)
    row.document_key, row.entry, row.updated_at = document_key, definition.entry, moment
    schedule_state.apply_definition(row, before, definition.flow, moment, imported=imported)
    audit.record(session, actor, Action.FLOW_REPLACE, row.key, before=audited, after=_audit_fields(row))


def _audit_fields(row: FlowRow) -> dict[str, Any]:
    """The fields of a flow for the audit log, without its texts, which may contain secrets."""
    pipeline = row.entry["pipeline"]
    return {"tasks": len(row.entry["tasks"]), "cronTime": pipeline.get("cron_time") or None, "paused": row.paused}


def _visible_to(actor: Actor) -> list[ColumnElement[bool]]:
    return [FlowRow.creator == actor.name] if actor.own_only else []
