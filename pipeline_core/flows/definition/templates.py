"""Job templates: reading them from the layout `job_template_*`, and how a task made from one is started."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from pipeline_core.errors import MissingParameter, WrongParameter
from pipeline_core.flows.notation.arguments import Argument, argv, read_arguments
from pipeline_core.flows.notation.environment import read_lines
from pipeline_core.flows.notation.errors import NotationError, collect_errors
from pipeline_core.flows.notation.mounts import read_mounts
from pipeline_core.flows.notation.site import Site
from pipeline_core.validation.errors import ValidationErrors, join_path
from pipeline_core.validation.fields import FieldReader
from pipeline_core.validation.texts import disguised, shown

CUSTOMIZE = "customize"
ALIASES: Mapping[str, str] = MappingProxyType({"自定义镜像": CUSTOMIZE})
"""Other names of built-in templates."""

_NAME = re.compile(r"[^\s/]{1,64}")
_UNUSED = ("project_name", "image_describe", "gitpath")
_UNUSED_OF_TEMPLATE = ("describe", "old_names", "version", "demo")


class Behaviour(StrEnum):
    """What a template does: run a container, or what the built-in template of that name does."""

    CONTAINER = "container"
    LOGICAL = "logical"
    PYTHON = "python"
    PYTORCHJOB = "pytorchjob"
    TFJOB = "tfjob"
    MPIJOB = "mpijob"

    @property
    def distributed(self) -> bool:
        return self in (Behaviour.PYTORCHJOB, Behaviour.TFJOB, Behaviour.MPIJOB)


@dataclass(frozen=True, kw_only=True, slots=True)
class Template:
    """A template; `command` is its entrypoint, `volume` the notation of its mounts, `expand` an opaque object."""

    name: str
    behaviour: Behaviour = Behaviour.CONTAINER
    image: str = ""
    command: tuple[str, ...] = ()
    workdir: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    volume: str = ""
    account: str = ""
    privileged: bool = False
    expand: Mapping[str, Any] = field(default_factory=dict)
    arguments: Mapping[str, Argument] = field(default_factory=dict)

    @property
    def host_network(self) -> bool:
        return str(self.expand.get("HostNetwork", "")).lower() == "true"

    @property
    def describe(self) -> str:
        return f"the template {self.name}"

    def setting(self, argument: str) -> str | None:
        """What an argument sets (`images`, `workdir`, `command`, `code`, `num_worker`); None when it becomes argv."""
        word = argument.lstrip("-")
        if self.behaviour.distributed:
            return _DISTRIBUTED.get(word)
        if self.behaviour is Behaviour.PYTHON and word == "code":
            return word
        return word if not self.command and word in _WITHOUT_COMMAND else None


_WITHOUT_COMMAND = ("images", "workdir", "command")
_DISTRIBUTED = {
    "images": "images",
    "image": "images",
    "workdir": "workdir",
    "working_dir": "workdir",
    "command": "command",
    "num_worker": "num_worker",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Start:
    """How a container is started: a `script` for `sh -c`, or `words` that are a command, or the image's own command;
    `argv` follows. `replicas` is more than one for distributed templates only."""

    image: str
    workdir: str
    script: str = ""
    words: tuple[str, ...] = ()
    argv: tuple[str, ...] = ()
    replicas: int = 1


def start(
    template: Template, values: Mapping[str, Any], *, command: str = "", workdir: str = "", template_workdir: str = ""
) -> Start:
    """How a task with these checked values is started. The task's own `command` (a script) and `workdir` come first;
    `template_workdir` is the template's, rendered.

    Raises NotationError when there is no image, nothing to run, or a wrong number of workers.
    """
    settings = {
        setting: value for name, value in values.items() if (setting := template.setting(name)) and value is not None
    }
    image = str(settings.get("images") or template.image)
    script = command or str(settings.get("command", ""))
    words = () if script else template.command
    if not script and template.behaviour is Behaviour.PYTHON:
        words = ("python3", "-c", str(settings.get("code", "")))
    if not image:
        raise NotationError(f"names no image, and {template.describe} has none either")
    if template.behaviour.distributed and not script:
        raise NotationError(f"needs a command; {template.describe} runs it in each replica")
    return Start(
        image=image,
        workdir=workdir or str(settings.get("workdir") or template_workdir),
        script=script,
        words=words,
        argv=tuple(argv({name: value for name, value in values.items() if template.setting(name) is None})),
        replicas=_replicas(settings.get("num_worker", 1)),
    )


def _replicas(value: Any) -> int:
    text = str(value)
    if not re.fullmatch(r"[0-9]{1,5}", text) or int(text) not in range(1, 10_001):
        raise NotationError(f"has num_worker {shown(value)}; it must be a whole number from 1 to 10000")
    return int(text)


def canonical_name(name: str) -> str:
    """The one name of a template, whichever of its names is given."""
    return ALIASES.get(name, name)


def read_templates(raw: object, site: Site) -> dict[str, Template]:
    """The templates of a document `{name: template, …}`, by the names in it.

    All or nothing: raises WrongParameter or MissingParameter with all validation errors.
    """
    if not isinstance(raw, dict) or not raw:
        found = "an empty one" if raw == {} else shown(raw)
        form = '{"train": {"job_template_name": "train", …}}'
        raise WrongParameter(f"The body must be an object of templates by name, as {form}, not {found}.")
    problems = ValidationErrors()
    templates: dict[str, Template] = {}
    for name, document in raw.items():
        if not isinstance(document, dict):
            problems.add(join_path("", name), f"must be an object, not {shown(document)}")
        else:
            templates[name] = _template(name, document, site, problems)
    known = Counter(map(canonical_name, templates))
    for name in templates:
        if known[canonical_name(name)] > 1:
            problems.add(join_path("", name), f"is another name of {canonical_name(name)}; both are there")
    problems.raise_any()
    return templates


def _template(name: str, raw: dict[str, Any], site: Site, problems: ValidationErrors) -> Template:
    fields = FieldReader(raw, ValidationErrors(), join_path("", name))
    fields.ignore(*_UNUSED, *(f"job_template_{word}" for word in _UNUSED_OF_TEMPLATE))
    own = fields.text("job_template_name", required=True, check=_name_problem)
    if own and canonical_name(own) != canonical_name(name):
        fields.add_error("job_template_name", f"must agree with the key {shown(name)}, not be {shown(own)}")
    behaviour = BUILT_IN_BEHAVIOURS.get(canonical_name(name))
    expand = fields.value("job_template_expand") or {}
    if not isinstance(expand, dict):
        fields.add_error("job_template_expand", f"must be an object, not {shown(expand)}")
        expand = {}
    image = fields.text("image_name")
    groups = fields.value("job_template_args")
    arguments = read_arguments({} if groups in (None, "") else groups, fields.errors, fields.path("job_template_args"))
    env = _environment(fields)
    command = _command(fields)
    own_fields: dict[str, Any] = {
        "command": command,
        "workdir": fields.text("job_template_workdir"),
        "volume": fields.text("job_template_volume", check=lambda text: _volume_problem(text, site)),
        "account": fields.text("job_template_account"),
        "privileged": fields.flag("job_template_privileged"),
    }
    if not image and behaviour is None and not any(word.lstrip("-") == "images" for word in arguments):
        fields.add_error("image_name", "is required where no argument names the image", MissingParameter)
    collect_errors(fields.finish, problems)
    shared: dict[str, Any] = {"name": name, "image": image, "env": env, "expand": expand, "arguments": arguments}
    # An import of a built-in name changes neither what it does nor how it is started.
    return Template(**shared, behaviour=behaviour) if behaviour else Template(**shared, **own_fields)


def _name_problem(name: str) -> str | None:
    if _NAME.fullmatch(name) and not disguised(name):
        return None
    return "must be at most 64 characters without blanks, `/`, control and direction characters"


def _volume_problem(text: str, site: Site) -> str | None:
    try:
        # Mounts with variables are read when these are rendered for a task.
        read_mounts("" if "{{" in text else text, "creator", site)
    except NotationError as error:
        return str(error)
    return None


def _command(fields: FieldReader) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(fields.text("job_template_command")))
    except ValueError as error:
        fields.add_error("job_template_command", f"must be words as a shell reads them ({error})")
        return ()


def _environment(fields: FieldReader) -> dict[str, str]:
    try:
        return read_lines(fields.text("job_template_env"))
    except NotationError as error:
        fields.add_error("job_template_env", str(error))
        return {}


BUILT_IN_BEHAVIOURS: Mapping[str, Behaviour] = {CUSTOMIZE: Behaviour.CONTAINER} | {
    behaviour.value: behaviour for behaviour in Behaviour if behaviour is not Behaviour.CONTAINER
}
"""What the built-in templates do, by name."""
