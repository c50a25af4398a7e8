"""A flow and its tasks, read from one entry of the import document."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any

from pipeline_core.errors import MissingParameter, WrongParameter
from pipeline_core.flows.definition.cache import FlowCache
from pipeline_core.flows.notation.cron import Schedule, check_timezone, read_instant
from pipeline_core.flows.notation.dag import Dag
from pipeline_core.flows.notation.errors import NotationError, collect_errors
from pipeline_core.flows.notation.layout import layout
from pipeline_core.flows.notation.names import check_flow_name, check_name, identity
from pipeline_core.flows.states import RunState
from pipeline_core.runtime import part
from pipeline_core.validation.errors import ValidationErrors, join_path
from pipeline_core.validation.fields import FieldReader
from pipeline_core.validation.texts import shown

TEMPLATE_KEYS = ("job_templete", "job_template")
"""The keys under which a task may name its template; exports have the first one."""

MAX_TASKS = 5_000
"""Tasks of a flow. The engine handles all tasks of a run at once."""

MAX_EDGES = 50_000
"""Dependencies between tasks of a flow."""

ALERT_STATES: Mapping[str, RunState] = MappingProxyType(
    {
        **{state.value: state for state in RunState},
        "created": RunState.WAITING,
        "pending": RunState.WAITING,
        "terminated": RunState.STOPPED,
        "error": RunState.FAILED,
    }
)
"""The names, in lower case, that `alert_status` may contain."""

_DIGITS = re.compile(r"[0-9]{1,9}")
_MOST = 10**9


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """A node of a flow. Texts and resources are as the document has them; `retry` counts attempts after the first,
    `timeout` is in seconds, 0 for none."""

    name: str
    label: str
    template: str
    args: Mapping[str, Any]
    env: str
    command: str
    working_dir: str
    volume_mount: str
    node_selector: str
    resource_cpu: Any
    resource_memory: Any
    resource_gpu: Any
    resource_rdma: Any
    retry: int
    timeout: int
    skip: bool

    @property
    def key(self) -> str:
        """The identity of the task."""
        return identity(self.name)


@dataclass(frozen=True, kw_only=True, slots=True)
class Flow:
    """A flow. Keys of `tasks` and `dag` are identities of tasks. `backfill_start` None means "since the schedule was set"."""

    name: str
    describe: str
    project: str
    global_env: str
    tasks: Mapping[str, Task]
    dag: Dag
    schedule: Schedule | None
    timezone: str
    backfill_start: datetime | None
    depends_on_past: bool
    catchup: bool
    fail_fast: bool
    parallelism: int
    max_active_runs: int
    max_manual_runs: int
    expired_limit: int
    alert_states: frozenset[RunState]
    alert_users: tuple[str, ...]

    @property
    def key(self) -> str:
        """The identity of the flow."""
        return identity(self.name)


@part
def _parsed() -> FlowCache[Flow]:
    """Flows by the digest of their stored entries."""
    return FlowCache()


def parse(entry: object, problems: ValidationErrors, path: str) -> Flow | None:
    """The flow of an entry `{"pipeline": {…}, "tasks": [{…}]}`; validation errors are added to `problems`.

    `path`, empty for the root, is the prefix of the errors' paths. Templates and the configuration are not checked.
    """
    if not isinstance(entry, dict):
        problems.add(path or "body", f"must be an object with `pipeline` and `tasks`, not {shown(entry)}")
        return None
    for name in entry.keys() - {"pipeline", "tasks"}:
        problems.add(join_path(path, name), "is no field here; there are pipeline, tasks")
    tasks = _tasks(entry.get("tasks"), problems, join_path(path, "tasks"))
    pipeline = entry.get("pipeline")
    if not isinstance(pipeline, dict):
        problems.add(join_path(path, "pipeline"), f"must be an object, not {shown(pipeline)}")
        return None
    fields = FieldReader(pipeline, ValidationErrors(), join_path(path, "pipeline"))
    flow = _flow(fields, tasks)
    collect_errors(fields.finish, problems)
    return flow


def parse_stored(entry: Mapping[str, Any]) -> Flow:
    """The flow of a stored entry, which is not checked against templates again. Raises WrongParameter.

    It is kept in the process, since a large flow takes a while to parse and is read at each step of a schedule and a run.
    """
    # Not by comparing entries: to Python 1, 1.0 and true are equal, but a task is given them as they are.
    digest = hashlib.sha256(json.dumps(entry).encode()).hexdigest()
    if cached := _parsed().get(digest):
        return cached
    problems = ValidationErrors()
    flow = parse(entry, problems, "")
    problems.raise_any()
    if flow is None:
        raise WrongParameter("The stored flow cannot be read.")
    _parsed().put(digest, flow, len(flow.tasks))
    return flow


def flow_layout(flow: Flow, most: int, dag: Dag | None = None) -> dict[str, Any]:
    """The layout of a flow's tasks, or of those in `dag`, for the API, with at most about `most` nodes."""
    chosen = flow.dag if dag is None else dag
    names = {key: flow.tasks[key].name for key in chosen}
    return layout(chosen, most).to_json(names, {key: flow.tasks[key].label for key in chosen})


def read_alert_states(text: str) -> frozenset[RunState]:
    """The states in a text of names, in any case, separated by commas. Raises NotationError."""
    names = [word.strip() for word in text.split(",") if word.strip()]
    for name in names:
        if name.lower() not in ALERT_STATES:
            raise NotationError(f"names {shown(name)}; there are {', '.join(ALERT_STATES)}, separated by commas")
    return frozenset(ALERT_STATES[name.lower()] for name in names)


def _flow(fields: FieldReader, tasks: Mapping[str, Task]) -> Flow:
    fields.ignore("parameter", "expand")
    timezone = _read(fields, "timezone", check_timezone, "UTC")
    return Flow(
        name=_read(fields, "name", check_flow_name, "", required=True),
        describe=fields.text("describe"),
        project=fields.text("project") or "public",
        global_env=fields.text("global_env"),
        tasks=tasks,
        dag=_dag(fields, tasks),
        schedule=_schedule(fields, timezone),
        timezone=timezone,
        backfill_start=_read(fields, "cronjob_start_time", lambda text: read_instant(text, timezone), None),
        depends_on_past=_flag(fields, "depends_on_past", False),
        catchup=_flag(fields, "catchup", True),
        fail_fast=_flag(fields, "failFast", True),
        parallelism=_count(fields, "parallelism", 10, 1),
        max_active_runs=_count(fields, "max_active_runs", 1, 1),
        max_manual_runs=_count(fields, "max_manual_runs", 10, 1),
        expired_limit=_count(fields, "expired_limit", 0),
        alert_states=_read(fields, "alert_status", read_alert_states, frozenset()),
        alert_users=tuple(word.strip() for word in fields.text("alert_user").split(",") if word.strip()),
    )


def _schedule(fields: FieldReader, timezone: str) -> Schedule | None:
    kind = fields.text(
        "schedule_type", check=lambda text: None if text in ("once", "crontab") else "must be once or crontab"
    )
    schedule = _read(fields, "cron_time", lambda text: Schedule(text, timezone), None)
    if kind == "crontab" and not fields.text("cron_time"):
        fields.add_error("cron_time", "is required where schedule_type is crontab", MissingParameter)
    return schedule if kind == "crontab" else None


def _dag(fields: FieldReader, tasks: Mapping[str, Task]) -> Dag:
    raw = fields.value("dag_json")
    nodes = {} if raw in (None, "") else raw
    if not isinstance(nodes, dict):
        fields.add_error("dag_json", f"must be an object of tasks, not {shown(nodes)}")
        return Dag({})
    upstream: dict[str, list[str]] = {}
    edges = 0
    for name, node in nodes.items():
        names = _upstream(fields, name, node)
        edges += len(names)
        if edges > MAX_EDGES:
            fields.add_error(
                "dag_json", f"has more than {MAX_EDGES} names of tasks under `upstream`, which is the most"
            )
            return Dag({})
        if identity(name) not in tasks:
            fields.add_error(("dag_json", name), f"is a node without a task; there is no task {shown(name)}")
        elif identity(name) in upstream:
            fields.add_error(
                ("dag_json", name), "is there twice, as names of tasks agree in lower case with `-` for `_`"
            )
        for other in names:
            if identity(other) not in tasks:
                fields.add_error(
                    ("dag_json", name, "upstream"), f"names {shown(other)} upstream of {shown(name)}, which is no task"
                )
        upstream[identity(name)] = [identity(other) for other in names if identity(other) in tasks]
    try:
        return Dag.of({key: upstream.get(key, []) for key in tasks})
    except NotationError as error:
        fields.add_error("dag_json", str(error))
        return Dag({})


def _upstream(fields: FieldReader, name: str, node: object) -> list[str]:
    names = node.get("upstream") if isinstance(node, dict) else None
    if not isinstance(node, dict) or node.keys() - {"upstream"}:
        fields.add_error(("dag_json", name), f'must be an object as {{"upstream": ["a", "b"]}}, not {shown(node)}')
    elif names is not None and not (isinstance(names, list) and all(isinstance(other, str) for other in names)):
        fields.add_error(("dag_json", name, "upstream"), f"must be a list of names of tasks, not {shown(names)}")
    else:
        return names or []
    return []


def _tasks(raw: object, problems: ValidationErrors, path: str) -> dict[str, Task]:
    if not isinstance(raw, list) or not raw:
        problems.add(path, f"must be a list of at least one task, not {shown(raw) if raw != [] else 'an empty one'}")
        return {}
    if len(raw) > MAX_TASKS:
        problems.add(path, f"has {len(raw)} tasks; a flow may have {MAX_TASKS}")
        return {}
    tasks: dict[str, Task] = {}
    for index, item in enumerate(raw):
        if not isinstance(item, dict):
            problems.add(join_path(path, index), f"must be an object, not {shown(item)}")
            continue
        fields = FieldReader(item, ValidationErrors(), join_path(path, index))
        task = _task(fields)
        if task.name and task.key in tasks:
            other = tasks[task.key].name
            fields.add_error(
                "name", f"is {shown(task.name)}, the same as {shown(other)}: they agree in lower case with `-` for `_`"
            )
        tasks.setdefault(task.key, task)
        collect_errors(fields.finish, problems)
    return tasks


def _task(fields: FieldReader) -> Task:
    name = _read(fields, "name", check_name, "", required=True)
    templates = [text for key in TEMPLATE_KEYS if (text := fields.text(key))]
    if len(templates) != 1:
        fields.add_error(
            TEMPLATE_KEYS[0], f"(or {TEMPLATE_KEYS[1]}) is required, and only one of the two", MissingParameter
        )
    args = fields.value("args")
    if not isinstance(args, dict | None):
        fields.add_error("args", f"must be an object, not {shown(args)}")
    return Task(
        name=name,
        label=fields.text("label"),
        template=templates[0] if templates else "",
        args=args if isinstance(args, dict) else {},
        env=fields.text("env"),
        command=fields.text("command"),
        working_dir=fields.text("working_dir", check=_directory_problem),
        volume_mount=fields.text("volume_mount"),
        node_selector=fields.text("node_selector"),
        resource_cpu=fields.value("resource_cpu"),
        resource_memory=fields.value("resource_memory"),
        resource_gpu=fields.value("resource_gpu"),
        resource_rdma=fields.value("resource_rdma"),
        retry=_count(fields, "retry", 0),
        timeout=_count(fields, "timeout", 0),
        skip=_flag(fields, "skip", False),
    )


def _directory_problem(text: str) -> str | None:
    # A path that begins with a variable is checked after rendering.
    return None if text.strip().startswith(("/", "{{")) else f"must be an absolute path, not {shown(text)}"


def _read(fields: FieldReader, name: str, reader: Any, default: Any, *, required: bool = False) -> Any:
    """What `reader` makes of a text; `default` when there is none or it is wrong."""
    text = fields.text(name, required=required)
    if not text.strip():
        return default
    try:
        return reader(text)
    except NotationError as error:
        fields.add_error(name, str(error))
        return default


def _count(fields: FieldReader, name: str, default: int, least: int = 0) -> int:
    """A whole number, which may be given as text."""
    value = _whole(fields.value(name))
    if value in (None, ""):
        return default
    text = str(value).strip()
    if isinstance(value, bool) or not isinstance(value, str | int) or not _DIGITS.fullmatch(text) or int(text) < least:
        fields.add_error(name, f"must be a whole number from {least} to {_MOST - 1}, not {shown(value)}")
        return default
    return int(text)


def _flag(fields: FieldReader, name: str, default: bool) -> bool:
    """True or false, which may be given as text or as 1 or 0."""
    value = _whole(fields.value(name))
    if value in (None, ""):
        return default
    word = str(value).lower()
    if word not in ("true", "false", "1", "0"):
        fields.add_error(name, f"must be true or false, not {shown(value)}")
    return word in ("true", "1")


def _whole(value: Any) -> Any:
    """The value, but 2 where it is 2.0: in JSON both are the same number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def dump_document(document: Mapping[str, Any]) -> str:
    """The text of an import document; exporting what was imported gives the same text again."""
    return json.dumps(document, ensure_ascii=False, indent=2)
