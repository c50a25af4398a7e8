"""The import document `{key: {"pipeline": {…}, "tasks": […]}}`: read as a whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pipeline_core.errors import WrongParameter
from pipeline_core.flows.definition import preparation
from pipeline_core.flows.definition.catalogue import Catalogue
from pipeline_core.flows.definition.flow import TEMPLATE_KEYS, Flow, parse
from pipeline_core.flows.notation import variables
from pipeline_core.flows.notation.errors import NotationError
from pipeline_core.flows.notation.names import identity
from pipeline_core.flows.notation.site import Site
from pipeline_core.validation.errors import ValidationErrors, join_path
from pipeline_core.validation.texts import shown

_STAND_INS = {
    "runner": "runner",
    "pipeline_id": "1",
    "pipeline_name": "pipeline",
    "cluster_name": "cluster",
    "execution_date": "2000-01-01 00:00:00",
}


@dataclass(frozen=True, slots=True)
class FlowDefinition:
    """A flow, and the key and entry of the import document that it was read from; these are stored and exported."""

    flow: Flow
    key: str
    entry: Mapping[str, Any]


Creators = Callable[[str], str]
"""The creator of a flow, by its identity. Volumes of the creator are mounted into its tasks."""


def any_creator(key: str) -> str:
    """A stand-in for checks without a creator."""
    return "creator"


def read_document(
    raw: object, catalogue: Catalogue, site: Site, creators: Creators = any_creator
) -> dict[str, FlowDefinition]:
    """The flows of an import document, by their identities, in its order.

    All or nothing: raises WrongParameter or MissingParameter with all validation errors.
    """
    if not isinstance(raw, dict) or not raw:
        found = "an empty one" if raw == {} else shown(raw)
        form = '{"sales": {"pipeline": {"name": "sales", …}, "tasks": […]}}'
        raise WrongParameter(f"The document must be an object of flows by name, as {form}, not {found}.")
    problems = ValidationErrors()
    definitions: dict[str, FlowDefinition] = {}
    for key, entry in raw.items():
        flow = _read(entry, catalogue, site, creators, problems, join_path("", key))
        if flow is None:
            continue
        if identity(key) != flow.key:
            problems.add(
                join_path("", key, "pipeline", "name"),
                f"is {shown(flow.name)}, which does not agree with the key {shown(key)}",
            )
        elif flow.key in definitions:
            other = definitions[flow.key].flow.name
            problems.add(
                join_path("", key), f"is the same flow as {shown(other)}: names agree in lower case with `-` for `_`"
            )
        else:
            definitions[flow.key] = FlowDefinition(flow, key, canonical_entry(entry))
    problems.raise_any()
    return definitions


def read_entry(raw: object, catalogue: Catalogue, site: Site, creators: Creators = any_creator) -> FlowDefinition:
    """The flow of a single entry. Raises as `read_document` does."""
    flow, problems = examine_entry(raw, catalogue, site, creators)
    problems.raise_any()
    if flow is None or not isinstance(raw, dict):
        raise WrongParameter(f"The body must be an object with `pipeline` and `tasks`, not {shown(raw)}.")
    return FlowDefinition(flow, flow.name, canonical_entry(raw))


def examine_entry(
    raw: object, catalogue: Catalogue, site: Site, creators: Creators = any_creator
) -> tuple[Flow | None, ValidationErrors]:
    """The flow of a single entry as far as it can be read, and what is wrong with it."""
    problems = ValidationErrors()
    return _read(raw, catalogue, site, creators, problems, ""), problems


def canonical_entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The entry as it is stored: with the first spelling of the templates' key; all else, and every order, unchanged."""
    document_key, accepted = TEMPLATE_KEYS

    def spelled(task: Any) -> Any:
        if not isinstance(task, dict):
            return task
        return {document_key if key == accepted else key: value for key, value in task.items()}

    tasks = entry.get("tasks")
    return {**entry, "tasks": list(map(spelled, tasks))} if isinstance(tasks, list) else dict(entry)


def _read(
    entry: object, catalogue: Catalogue, site: Site, creators: Creators, problems: ValidationErrors, path: str
) -> Flow | None:
    flow = parse(entry, problems, path)
    # The DAG lacks tasks when it has a cycle or equal names; then dependencies are unknown.
    if flow and flow.tasks and isinstance(entry, dict) and len(flow.dag) == len(entry["tasks"]):
        _check(flow, catalogue, site, creators(flow.key), problems, path)
    return flow


def _check(flow: Flow, catalogue: Catalogue, site: Site, creator: str, problems: ValidationErrors, path: str) -> None:
    if flow.project not in site.projects:
        problems.add(
            join_path(path, "pipeline", "project"), f"is {shown(flow.project)}; there are {', '.join(site.projects)}"
        )
    builtin = variables.builtin_values(creator=creator, **_STAND_INS, timezone=flow.timezone)
    try:
        values = {**builtin, **preparation.global_env_values(flow, builtin)}
    except NotationError as error:
        problems.add(join_path(path, "pipeline", "global_env"), str(error))
        return
    for index, task in enumerate(flow.tasks.values()):
        if not task.template:
            continue
        where = join_path(path, "tasks", index)
        try:
            template = catalogue.find(task.template)
        except NotationError as error:
            problems.add(join_path(where, TEMPLATE_KEYS[0]), f"(task {task.name}) {error}")
            continue
        preparation.check(flow, task, template, values, creator, site, problems, where)
