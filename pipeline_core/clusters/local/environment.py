"""The environment of a container, and `$(VAR)` in its values, command and arguments."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Variable = tuple[str, str | dict[str, str]]


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace `$(NAME)` by the variable's value; an unknown name stays as it is, and `$$` is a single `$`.

    https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/
    """
    parts = []
    position = 0
    while (dollar := text.find("$", position)) >= 0:
        parts.append(text[position:dollar])
        following = text[dollar + 1 : dollar + 2]
        end = text.find(")", dollar + 2) if following == "(" else -1
        if following == "$":
            parts.append("$")
            position = dollar + 2
        elif end >= 0:
            name = text[dollar + 2 : end]
            parts.append(variables.get(name, text[dollar : end + 1]))
            position = end + 1
        else:
            parts.append("$")
            position = dollar + 1
    parts.append(text[position:])
    return "".join(parts)


def compose(
    base: Mapping[str, str], taskset: Mapping[str, str], own: Iterable[Variable], fields: Mapping[str, str]
) -> dict[str, str]:
    """The environment, in this order: the TaskSet's variables, what every process needs, the container's own.

    A variable of the container is a text, in which those before it are expanded, or `{"field": path}`, one of `fields`.
    """
    variables = {**taskset, **base}
    for name, value in own:
        variables[name] = expand(value, variables) if isinstance(value, str) else fields[value["field"]]
    return variables


def taskset_variables(namespace: str, name: str, role: str, index: int, sizes: Mapping[str, int]) -> dict[str, str]:
    """What each container learns of its TaskSet; `sizes` are the roles' numbers of replicas."""
    variables = {
        "TASKSET_NAMESPACE": namespace,
        "TASKSET_NAME": name,
        "TASKROLE_NAME": role,
        "TASKROLE_REPLICA_INDEX": str(index),
    }
    for other, size in sizes.items():
        variables[f"TASKROLE_HOSTS_{other.upper().replace('-', '_')}"] = ",".join(["127.0.0.1"] * size)
    return variables
