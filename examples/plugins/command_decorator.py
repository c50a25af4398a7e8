"""TemplateDecorator: has every container print who prepared it before its command runs, and sets a variable that says so.

A decorator may only add. In front of a command two things are allowed: text before the script of a shell, ending in
`;`, or whole words before all others.
"""

from __future__ import annotations

import copy
import posixpath
from typing import Any

SHELLS = {"sh", "bash", "dash", "ash", "ksh", "zsh"}
GREETING = 'echo "prepared by the example decorator"; '
# The words of a command come after these, and the shell becomes that command.
RUN_THE_REST = ["sh", "-c", GREETING + 'exec "$0" "$@"']
VARIABLE = {"name": "PREPARED_BY", "value": "example-decorator"}


def decorate(packet: dict[str, Any]) -> dict[str, Any]:
    """The whole TaskSet of `packet["job"]`, with the additions."""
    taskset = copy.deepcopy(packet["job"])
    for role in taskset["spec"]["roles"]:
        for container in role["template"]["spec"]["containers"]:
            # Without a command the image's own runs, and nobody may put another in its place.
            if container.get("command"):
                container["command"] = greeted(container["command"])
            add_variable(container)
    return taskset


def greeted(command: list[str]) -> list[str]:
    script = script_index(command)
    if script is None:
        return [*RUN_THE_REST, *command]
    return [*command[:script], GREETING + command[script], *command[script + 1 :]]


def script_index(command: list[str]) -> int | None:
    """Where in `command` the script of a shell stands: the word after `-c`, `-ec`, `-lc`…

    None when the command is none of a shell, or is written in a way that is not plain: whole words fit before any.
    """
    if posixpath.basename(command[0]) not in SHELLS:
        return None
    for index, word in enumerate(command[1:-1], start=1):
        if not word.startswith("-") or word.startswith("--"):
            return None
        if word.endswith("c"):
            return None if command[index + 1].startswith("-") else index + 1
    return None


def add_variable(container: dict[str, Any]) -> None:
    variables = container.get("env") or []
    if VARIABLE["name"] not in [variable["name"] for variable in variables]:
        container["env"] = [*variables, VARIABLE]
