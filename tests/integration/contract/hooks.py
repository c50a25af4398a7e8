"""What schemathesis has to know of the service beyond its document; loaded by name, from `schemathesis.toml`.

JSON Schema describes a request as far as it can. A case that is meant to be accepted is also given what it cannot say:
that two fields are equal, that a time lies ahead, the grammar of selectors. Cases that are meant to be refused go out as
they were made.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

import requests
import schemathesis
from schemathesis import Case, HookContext
from schemathesis.core.parameters import ParameterLocation
from schemathesis.generation import GenerationMode
from schemathesis.generation.meta import CoveragePhaseData, CoverageScenario

from pipeline_core.flows.notation.names import NAME
from tests.waiting import HANG_SECONDS

PASSWORD = "the password of this run"

_REPEATED: set[str] = set()
"""Operations each part of whose body is also one of another operation's body."""


@schemathesis.hook
def before_load_schema(context: HookContext, raw_schema: dict[str, Any]) -> None:
    """Note which operations repeat the parts of others' bodies: of those with the same parts, all but one."""
    schemas = raw_schema["components"]["schemas"]
    parts = {
        f"{method.upper()} {path}": _parts(operation["requestBody"], schemas)
        for path, operations in raw_schema["paths"].items()
        for method, operation in operations.items()
        if "requestBody" in operation
    }
    tried: set[str] = set()
    for label in sorted(parts, key=lambda label: (-len(parts[label]), label)):
        if parts[label] and parts[label] <= tried:
            _REPEATED.add(label)
        tried |= parts[label]


def _parts(document: Any, schemas: dict[str, Any]) -> set[str]:
    """The names of all schemas that a part of the OpenAPI document refers to, and that these refer to."""
    found: set[str] = set()
    open_ = [document]
    while open_:
        part = open_.pop()
        if isinstance(part, dict):
            name = str(part.get("$ref", "")).rpartition("/")[2]
            if name and name not in found:
                found.add(name)
                open_.append(schemas[name])
            part = list(part.values())
        if isinstance(part, list):
            open_ += part
    return found


@schemathesis.hook
def filter_case(context: HookContext, case: Case) -> bool:
    """Try every constraint on the parts of a body at one of the operations that take it. The others get the body's own
    constraints, all other parts of a request, and what is drawn."""
    data = case.meta.phase.data if case.meta else None
    return not (
        case.operation.label in _REPEATED
        and isinstance(data, CoveragePhaseData)
        and data.parameter_location is ParameterLocation.BODY
        and _is_of_a_part(data)
    )


def _is_of_a_part(data: CoveragePhaseData) -> bool:
    """Whether a case tries something inside of the body, not the body itself."""
    if data.location is None:
        return data.scenario in (CoverageScenario.VALID_OBJECT, CoverageScenario.OBJECT_ADDITIONAL_PROPERTY)
    return data.location.count("/") > 1


@schemathesis.hook
def before_call(context: HookContext, case: Case, **_: Any) -> None:
    """Make a case sound that is to be accepted."""
    if case.meta is None or case.meta.generation.mode is not GenerationMode.POSITIVE:
        return
    if make := _SOUND.get(case.operation.label):
        make(case)


@schemathesis.hook
def after_call(context: HookContext, case: Case, response: Any) -> None:
    """Undo a change of the admin's password, which all later cases are sent with."""
    if case.operation.label == "PUT /v1/tokens/admin" and case.method == "PUT" and response.status_code == 200:
        changed = json.loads(response.request.body)["token"]
        undone = requests.put(
            response.request.url, json={"token": PASSWORD}, headers={"token": changed}, timeout=HANG_SECONDS
        )
        assert undone.status_code == 200, undone.text


def _submission(case: Case) -> None:
    """A job's kind equals the submission's, its namespace and cluster are this installation's."""
    body = dict(case.body)
    body["job"] = {**body["job"], "kind": body["jobKind"]}
    body.pop("jobNameSpace", None)
    body.pop("cluster", None)
    case.body = body


def _note(case: Case) -> None:
    """A job's ID in the body is that of the path."""
    if isinstance(case.body, dict) and isinstance(case.body.get("jobID"), str):
        case.body = {**case.body, "jobID": unquote(case.path_parameters["job_id"])}


def _feature(case: Case) -> None:
    """Selectors have a grammar, addresses a form that is called; each type of plugin stands in a feature once."""
    body = dict(case.body)
    if body.get("jobSelector"):
        body["jobSelector"] = {"conditions": [], "expression": "*"}
    if body.get("signingSecret"):
        body["signingSecret"] = "whsec_" + "QUFB" * 8
    by_type = {plugin["pluginType"]: dict(plugin) for plugin in body["plugins"]}
    for kind, plugin in by_type.items():
        plugin["callAddress"] = "http://127.0.0.1:9/plugin"
        if plugin.get("jobSelector"):
            states = {"states": ["*"]} if kind == "LifeHook" else {}
            plugin["jobSelector"] = {"conditions": [], "expression": "jobID", **states}
        if kind == "TemplateTranslator" and plugin.get("failurePolicy") == "Ignore":
            plugin["failurePolicy"] = "Fail"
        if kind != "AccessGate":
            plugin.pop("resume", None)
        # Which plugins there are is not in the document.
        plugin.pop("shadowOf", None)
        if kind == "LifeHook":
            plugin["mode"] = "active"
    body["plugins"] = list(by_type.values())
    case.body = body


def _sequence(case: Case) -> None:
    """A plugin is not put before itself, and its type is what its key begins with."""
    case.body = {
        "beforeKey": f"{case.body['pluginType']}.{case.body['beforeKey']}",
        "afterKey": f"{case.body['pluginType']}.{case.body['afterKey']}x",
        "pluginType": case.body["pluginType"],
    }


def _token(case: Case) -> None:
    """A token ends in the future, and is not the admin's: that one has the password."""
    if case.body.get("expiresAt"):
        case.body = {**case.body, "expiresAt": "2999-01-01T00:00:00Z"}
    if case.body["forwho"] == "admin":
        case.body = {**case.body, "forwho": "ann"}


def _list(case: Case) -> None:
    """A cursor comes from an earlier answer."""
    case.query = {name: value for name, value in (case.query or {}).items() if name != "cursor"}


def _feed(case: Case) -> None:
    """Nothing comes while it waits."""
    case.query = {name: "1" if name == "wait" else value for name, value in (case.query or {}).items()}


def _entry(case: Case) -> None:
    """What stands in a flow has grammars of its own, and its name agrees with the path's."""
    name = f"made-{len(json.dumps(case.body))}"
    if case.path_parameters:
        given = unquote(case.path_parameters["name"])
        name = case.path_parameters["name"] = given if NAME.fullmatch(given) else "made"
    case.body = _flow(name, case.body["pipeline"])


def _document(case: Case) -> None:
    """As `_entry`, of each flow; names agree with their keys."""
    case.body = {f"flow-{n}": _flow(f"flow_{n}", entry["pipeline"]) for n, entry in enumerate(case.body.values())}


def _flow(name: str, pipeline: Any) -> dict[str, Any]:
    kept = {key: pipeline[key] for key in ("describe", "parameter", "expand", "catchup") if key in pipeline}
    return {
        "pipeline": {**kept, "name": name, "dag_json": {"a": {}}},
        "tasks": [{"name": "a", "job_templete": "logical"}],
    }


def _templates(case: Case) -> None:
    """A template's name agrees with its key; its arguments and texts have grammars of their own."""
    case.body = {
        f"template-{n}": {
            **{key: form[key] for key in ("job_template_describe", "gitpath") if key in form},
            "job_template_name": f"template-{n}",
            "image_name": "busybox",
        }
        for n, form in enumerate(case.body.values())
    }


def _run(case: Case) -> None:
    """Only names of the flow's own `global_env` take values."""
    if isinstance(case.body, dict) and case.body.get("variables"):
        case.body = {**case.body, "variables": {}}


def _backfill(case: Case) -> None:
    """Times have forms of their own, lie in the past, and one is not before the other."""
    if isinstance(case.body, dict):
        case.body = {**case.body, "from": "2026-03-01 00:00:00", "to": "2026-03-02 00:00:00"}


def _schedule(case: Case) -> None:
    """What was missed is made up when a schedule goes on, and not when it is paused."""
    if isinstance(case.body, dict) and case.body.get("paused"):
        case.body = {**case.body, "replay": False}


_SOUND: dict[str, Callable[[Case], None]] = {
    "POST /v1/job": _submission,
    "POST /v1/job/explain": _submission,
    "PUT /v1/job/stop/{job_id}": _note,
    "PUT /v1/job/resume/{job_id}": _note,
    "POST /v1/features": _feature,
    "POST /v1/features/what-if": _feature,
    "PUT /v1/plugins/sequence": _sequence,
    "POST /v1/tokens": _token,
    "GET /v1/job/list": _list,
    "GET /v1/job/logs/{job_id}": _list,
    "GET /v1/events": _feed,
    "POST /v1/flows": _entry,
    "PUT /v1/flows/{name}": _entry,
    "POST /v1/flows/import": _document,
    "POST /v1/flows/{name}/run": _run,
    "POST /v1/flows/{name}/tasks/{task}/run": _run,
    "POST /v1/flows/{name}/tasks/{task}/debug": _run,
    "POST /v1/templates": _templates,
    "POST /v1/flows/{name}/backfill": _backfill,
    "PUT /v1/flows/{name}/schedule": _schedule,
}
