"""What a decorator or binder does to a TaskSet: by methods that only add, and refuse the rest where it is written.

The service checks every answer by its own rules; these methods say earlier, in your own traceback, what it would refuse.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from posixpath import basename
from typing import Any, NoReturn

SHELLS = ("sh", "bash", "dash", "ash", "ksh", "zsh")
RESERVED = "pipeline/"
"""Labels and annotations that begin so are the service's."""


class NotAdditive(ValueError):
    """What was to be done is more than an addition. `path` says where, such as `spec.roles[0].template.spec`."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path} {problem}")
        self.path = path


def _add_to_map(holder: dict[str, Any], field: str, key: str, value: str, path: str, *, replace: bool = False) -> None:
    where = f"{path}.{field}[{key!r}]"
    for name, text in (("key", key), ("value", value)):
        if not isinstance(text, str):
            raise NotAdditive(where, f"has the {name} {text!r}; a text was expected")
    if key.startswith(RESERVED):
        raise NotAdditive(where, f"begins with {RESERVED}, which is the service's")
    texts = holder.get(field) or {}
    if not replace and texts.get(key, value) != value:
        raise NotAdditive(where, f"is {texts[key]!r} already; a decorator may only add")
    holder[field] = {**texts, key: value}


def _add_to_list(holder: dict[str, Any], field: str, key: str, element: Mapping[str, Any], path: str) -> None:
    """Add an element that is known by its `key`; nothing if an equal one is there."""
    where = f"{path}.{field}"
    name = element.get(key)
    if not isinstance(name, str) or not name:
        raise NotAdditive(where, f"has no element without `{key}`, a text that is not empty: {dict(element)!r}")
    elements = list(holder.get(field) or [])
    for index, known in enumerate(elements):
        if known.get(key) == name:
            if known == element:
                return
            raise NotAdditive(f"{where}[{index}]", f"has the {key} {name!r} already; a decorator may only add")
    holder[field] = [*elements, copy.deepcopy(dict(element))]


class ContainerAdditions:
    """A container that was there before. `document` is as it was submitted, with what was added so far; read it only."""

    def __init__(self, document: dict[str, Any], path: str) -> None:
        self.document = document
        self.path = path
        self._words: tuple[str, ...] = ()
        self._script = False

    @property
    def name(self) -> str:
        return str(self.document["name"])

    def add_env(self, name: str, value: str | None = None, *, value_from: Mapping[str, Any] | None = None) -> None:
        """An environment variable, with a value or from somewhere (`valueFrom`). The same once more changes nothing.

        Raises NotAdditive if it has another value already.
        """
        if (value is None) == (value_from is None):
            raise NotAdditive(f"{self.path}.env", f"gives {name!r} either a value or value_from")
        if value is not None and not isinstance(value, str):
            raise NotAdditive(f"{self.path}.env", f"gives {name!r} the value {value!r}; a text was expected")
        given = {"name": name, "value": value} if value_from is None else {"name": name, "valueFrom": value_from}
        _add_to_list(self.document, "env", "name", given, self.path)

    def add_volume_mount(self, name: str, mount_path: str, **fields: Any) -> None:
        """Mount the volume `name` at `mount_path`; `fields` are others of a VolumeMount, such as `readOnly=True`."""
        element = {"name": name, "mountPath": mount_path, **fields}
        _add_to_list(self.document, "volumeMounts", "mountPath", element, self.path)

    def prefix_command(self, *words: str) -> None:
        """Put whole words in front of the command, such as `nice`, `-n`, `5`.

        Raises NotAdditive for a container without a command: the image's own runs, and nobody may put another in its place.
        """
        command = self._command()
        if self._script:
            self._refuse_both()
        if not words or not all(isinstance(word, str) for word in words):
            raise NotAdditive(f"{self.path}.command", f"cannot begin with {words!r}; texts were expected")
        self._words = (*words, *self._words)
        self.document["command"] = [*words, *command]

    def prefix_script(self, text: str) -> None:
        """Put text in front of the script of a shell (`sh -c SCRIPT`); it ends in `;`, `&&` or a newline.

        Raises NotAdditive for a command that is none of a shell, and for a text that does not end a command.
        """
        command = self._command()
        if self._words:
            self._refuse_both()
        index = script_index(command)
        if index is None:
            raise NotAdditive(f"{self.path}.command", "has no script of a shell; use prefix_command")
        if not ends_a_command(text):
            raise NotAdditive(f"{self.path}.command", f"cannot begin with {text!r}: end it with `;`, `&&` or a newline")
        self._script = True
        self.document["command"] = [*command[:index], text + command[index], *command[index + 1 :]]

    def _command(self) -> list[str]:
        command = self.document.get("command")
        if not command:
            raise NotAdditive(f"{self.path}.command", "is missing: the image's own runs, and nothing may replace it")
        return list(command)

    def _refuse_both(self) -> NoReturn:
        raise NotAdditive(f"{self.path}.command", "may grow by words or by a script, not by both")


class RoleAdditions:
    """A role. `document` is as it was submitted, with what was added so far; read it only."""

    def __init__(self, document: dict[str, Any], path: str) -> None:
        self.document = document
        self.path = path
        self._template: dict[str, Any] = document["template"]
        self._pod: dict[str, Any] = self._template["spec"]
        pod_path = f"{path}.template.spec"
        self.containers = [
            ContainerAdditions(container, f"{pod_path}.containers[{index}]")
            for index, container in enumerate(self._pod.get("containers") or [])
        ]
        """The containers that were there before."""

    @property
    def name(self) -> str:
        return str(self.document["name"])

    @property
    def replicas(self) -> int:
        return int(self.document.get("replicas", 1))

    def add_sidecar(self, name: str, image: str, **fields: Any) -> None:
        """A container beside the others: it does not count for success, and is stopped when they have ended.

        `fields` are others of a Container, such as `command=[…]`, `env=[…]`, `volumeMounts=[…]`.
        """
        self._add_container("containers", name, image, fields)

    def add_init_container(self, name: str, image: str, **fields: Any) -> None:
        """A container that runs before the others, after the init containers that were there."""
        self._add_container("initContainers", name, image, fields)

    def add_volume(self, name: str, **source: Any) -> None:
        """A volume, such as `add_volume("scratch", emptyDir={})`. Raises NotAdditive without exactly one source."""
        if len(source) != 1:
            raise NotAdditive(
                f"{self.path}.template.spec.volumes", f"gives {name!r} {len(source)} sources; one was expected"
            )
        _add_to_list(self._pod, "volumes", "name", {"name": name, **source}, f"{self.path}.template.spec")

    def add_env(self, name: str, value: str) -> None:
        """An environment variable of every container that was there before."""
        for container in self.containers:
            container.add_env(name, value)

    def add_toleration(self, **fields: Any) -> None:
        """A toleration of the pods, such as `key="gpu", operator="Exists"`."""
        tolerations = list(self._pod.get("tolerations") or [])
        if fields not in tolerations:
            self._pod["tolerations"] = [*tolerations, fields]

    def add_label(self, key: str, value: str) -> None:
        """A label of the pods."""
        _add_to_map(self._metadata(), "labels", key, value, f"{self.path}.template.metadata")

    def add_annotation(self, key: str, value: str) -> None:
        """An annotation of the pods."""
        _add_to_map(self._metadata(), "annotations", key, value, f"{self.path}.template.metadata")

    def _metadata(self) -> dict[str, Any]:
        metadata: dict[str, Any] = self._template.get("metadata") or {}
        self._template["metadata"] = metadata
        return metadata

    def _add_container(self, field: str, name: str, image: str, fields: Mapping[str, Any]) -> None:
        path = f"{self.path}.template.spec"
        if not isinstance(image, str) or not image:
            raise NotAdditive(f"{path}.{field}", f"gives {name!r} the image {image!r}; a text was expected")
        others = "initContainers" if field == "containers" else "containers"
        if any(one.get("name") == name for one in self._pod.get(others) or []):
            raise NotAdditive(f"{path}.{others}", f"has the name {name!r} already")
        _add_to_list(self._pod, field, "name", {"name": name, "image": image, **fields}, path)


class Additions:
    """The TaskSet that a decorator was sent, to which it may add."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        self.document: dict[str, Any] = copy.deepcopy(dict(job))
        """As it was sent, with what was added so far; read it only."""
        self.roles = [
            self._role(role, f"spec.roles[{index}]") for index, role in enumerate(self.document["spec"]["roles"])
        ]

    def _role(self, document: dict[str, Any], path: str) -> RoleAdditions:
        return RoleAdditions(document, path)

    def add_label(self, key: str, value: str) -> None:
        """A label of the TaskSet; those of pods are the roles'."""
        _add_to_map(self._metadata(), "labels", key, value, "metadata")

    def add_annotation(self, key: str, value: str) -> None:
        """An annotation of the TaskSet; those of pods are the roles'."""
        _add_to_map(self._metadata(), "annotations", key, value, "metadata")

    def _metadata(self) -> dict[str, Any]:
        metadata: dict[str, Any] = self.document.get("metadata") or {}
        self.document["metadata"] = metadata
        return metadata


class RoleBinding(RoleAdditions):
    """A role, whose scheduling a binder sets."""

    def set_scheduler(self, name: str) -> None:
        """The scheduler of the pods."""
        self._set("schedulerName", name)

    def set_priority_class(self, name: str) -> None:
        """The priority class of the pods."""
        self._set("priorityClassName", name)

    def set_label(self, key: str, value: str) -> None:
        """A label of the pods, also in place of another value."""
        _add_to_map(self._metadata(), "labels", key, value, f"{self.path}.template.metadata", replace=True)

    def set_annotation(self, key: str, value: str) -> None:
        """An annotation of the pods, also in place of another value."""
        _add_to_map(self._metadata(), "annotations", key, value, f"{self.path}.template.metadata", replace=True)

    def _set(self, field: str, name: str) -> None:
        if not isinstance(name, str) or not name:
            raise NotAdditive(f"{self.path}.template.spec.{field}", f"cannot be {name!r}; a text was expected")
        self._pod[field] = name


class Binding(Additions):
    """The TaskSet that a binder was sent: it may add, and set each role's scheduler, priority class, labels and annotations."""

    roles: Sequence[RoleBinding]  # type: ignore[assignment]

    def _role(self, document: dict[str, Any], path: str) -> RoleBinding:
        return RoleBinding(document, path)

    def set_scheduler(self, name: str) -> None:
        """The scheduler of the pods of all roles."""
        for role in self.roles:
            role.set_scheduler(name)

    def set_priority_class(self, name: str) -> None:
        """The priority class of the pods of all roles."""
        for role in self.roles:
            role.set_priority_class(name)


def script_index(command: Sequence[str]) -> int | None:
    """The index of the script in the command of a shell: `["sh", "-c", "run"]` → 2. None for any other command."""
    if not command or basename(command[0]) not in SHELLS:
        return None
    index, has_script = 1, False
    while index < len(command) and command[index][:1] in ("-", "+"):
        option = command[index]
        index += 1
        if option in ("-", "--"):
            break
        if not option.startswith("--"):
            has_script |= option[0] == "-" and "c" in option
            index += option.lower().count("o")
    return index if has_script and index < len(command) else None


def ends_a_command(text: str) -> bool:
    """Whether what follows `text` in a script is a command of its own: not in a comment or an escape."""
    body = text.rstrip()
    if body.endswith(("\\", "\\;", "\\&&")):
        return False
    if "\n" in text[len(body) :]:
        return True
    return body.endswith((";", "&&")) and not body.rpartition("\n")[2].lstrip().startswith("#")
