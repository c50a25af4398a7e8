"""Checks that a document is a TaskSet that can run."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, cast

from jsonschema_rs import Draft202012Validator as QuickValidator

from pipeline_core.errors import WrongParameter
from pipeline_core.settings import settings
from pipeline_core.taskset import document as taskset_document
from pipeline_core.taskset.values import FieldError, Json, collect_errors, shown, unusable
from pipeline_core.validation.errors import Path, path_text

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator, ValidationError

MAX_BYTES = 900 * 1024
"""Bytes of compact JSON in UTF-8 that a TaskSet may have: it must fit a ConfigMap, which holds 1 MiB."""


class TaskSetError(WrongParameter):
    """The document is not a TaskSet that can run; `errors` has the reasons by path."""


@cache
def schema() -> Mapping[str, Any]:
    """The JSON Schema (draft 2020-12) of a TaskSet. Each part's `description` says what is right there."""
    text = files(__package__).joinpath("taskset.schema.json").read_text(encoding="utf-8")
    parsed: Mapping[str, Any] = json.loads(text)
    return parsed


def check(document: Json) -> None:
    """Check that `document`, any JSON value, is a TaskSet that can run.

    Raises TaskSetError; its `errors` maps paths (`spec.roles[0].name`) to what is wrong there.
    """
    if junk := unusable(document):
        _refuse([junk])
    if not conforms(document):
        _refuse(_against_schema(document))
    _refuse(_against_rules(document))


def check_size(document: Json, whose: str = "the TaskSet") -> None:
    """Check that the document is not larger than MAX_BYTES. `whose` begins the error message. Raises TaskSetError."""
    size = len(json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode())
    if size > MAX_BYTES:
        problem = f"has {size} bytes as compact JSON; at most {MAX_BYTES} fit a cluster's ConfigMap"
        raise TaskSetError(f"{whose} {problem}", errors={path_text(()): [problem]})


def conforms(document: Json) -> bool:
    """Whether the document conforms to the schema for sure.

    False is no refusal yet: `jsonschema`, which takes a hundred times as long, says what is wrong and where.
    """
    try:
        return _quick_validator().is_valid(document)
    except ValueError:
        return False


@cache
def _quick_validator() -> QuickValidator:
    return QuickValidator(dict(schema()))


@cache
def _validator() -> Draft202012Validator:
    # Most processes never see a wrong TaskSet, and need not load the library.
    from jsonschema import Draft202012Validator

    return Draft202012Validator(schema())


def _refuse(found: Iterable[FieldError]) -> None:
    if errors := collect_errors(found):
        raise TaskSetError(f"The TaskSet is wrong: {errors.sentence(' ')}", errors=errors.by_path)


def _against_schema(document: Json) -> Iterator[FieldError]:
    """What is wrong, once for each place: several rules of the schema may say the same about it."""
    known: set[Path] = set()
    for error in map(_described, _validator().iter_errors(document)):
        if error[0] not in known:
            known.add(error[0])
            yield error


def _described(error: ValidationError) -> FieldError:
    path, part = tuple(error.absolute_path), cast(dict[str, Any], error.schema)
    if error.validator == "required":
        # The library reports each missing key by itself, in the schema's order, but names it in its message only.
        missing = next(key for key in part["required"] if error.message.startswith(f"{key!r} is"))
        right = part["properties"][missing].get("description")
        return (*path, missing), "is missing" + (f"; right would be: {right}" if right else "")
    return path, f"is {shown(error.instance)}; right would be: {part['description']}"


def _against_rules(document: Mapping[str, Any]) -> Iterator[FieldError]:
    """Errors that a schema cannot express: duplicate names, numbers that limit each other, JSON in a text."""
    entries = document["spec"]["roles"]
    roles: Path = ("spec", "roles")
    yield from _repeated(((*roles, index, "name"), role["name"]) for index, role in enumerate(entries))
    for index, role in enumerate(taskset_document.roles(document)):
        policy: Path = (*roles, index, "completionPolicy")
        for key, value in (("minSucceeded", role.min_succeeded), ("maxFailed", role.max_failed)):
            if value > role.replicas:
                yield (*policy, key), f"is {value}, more than the role's replicas; right would be: 1 to {role.replicas}"
        yield from _sidecars((*roles, index, "template", "metadata", "annotations"), entries[index]["template"])
        yield from _pod((*roles, index, "template", "spec"), entries[index]["template"]["spec"])


def _sidecars(path: Path, template: Mapping[str, Any]) -> Iterator[FieldError]:
    text = taskset_document.sidecars_text(template)
    if text is not None and taskset_document.read_sidecars(text) is None:
        right = 'a JSON list of the names of containers, such as `["logger"]`'
        yield (*path, taskset_document.SIDECARS), f"is {shown(text)}; right would be: {right}"


def _pod(path: Path, pod: Mapping[str, Any]) -> Iterator[FieldError]:
    containers: list[tuple[Path, Mapping[str, Any]]] = [
        ((*path, kind, index), container)
        for kind in ("initContainers", "containers")
        for index, container in enumerate(pod.get(kind) or ())
    ]
    volumes = [
        ((*path, "volumes", index, "name"), volume["name"]) for index, volume in enumerate(pod.get("volumes") or ())
    ]
    yield from _repeated(((*where, "name"), container["name"]) for where, container in containers)
    yield from _repeated(volumes)
    known = {name for _, name in volumes}
    for where, container in containers:
        mounts = [((*where, "volumeMounts", i), mount) for i, mount in enumerate(container.get("volumeMounts") or ())]
        yield from _repeated(((*at, "mountPath"), mount["mountPath"]) for at, mount in mounts)
        for at, mount in mounts:
            if mount["name"] not in known:
                yield (*at, "name"), f"is {shown(mount['name'])}; right would be: the name of one of the pod's volumes"


def _repeated(named: Iterable[tuple[Path, Hashable]]) -> Iterator[FieldError]:
    first: dict[Hashable, Path] = {}
    for path, name in named:
        if name in first:
            yield path, f"is {shown(name)}, as is {path_text(first[name])}; right would be: each name once"
        else:
            first[name] = path


def allowed_namespace(namespace: str, path: str) -> str:
    """The namespace, if jobs may run in it. Raises WrongParameter, with `path` and the namespaces that are allowed."""
    allowed = settings().namespaces
    if namespace not in allowed:
        listed = ", ".join(allowed)
        raise WrongParameter(
            f'{path}: "{namespace}" is not one of the namespaces that jobs may run in: {listed}.',
            errors={path: [f"must be one of {listed}"]},
        )
    return namespace
