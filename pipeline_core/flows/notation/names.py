"""Names of flows, tasks and users, and their identities."""

from __future__ import annotations

import re

from pipeline_core.flows.notation.errors import NotationError
from pipeline_core.validation.texts import shown

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,53}")
USER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

RESERVED_FLOW_NAMES = frozenset({"import", "export", "check"})
"""Words that paths of the API have in place of a flow's name."""


def identity(name: str) -> str:
    """The identity of a flow's or task's name: in lower case, with `-` for `_`. Names with the same identity are the same."""
    return name.lower().replace("_", "-")


def check_name(name: str) -> str:
    """The name itself. Raises NotationError."""
    if not NAME.fullmatch(name):
        raise NotationError(f"must be a letter and at most 53 letters, digits, `_` and `-`, not {shown(name)}")
    return name


def check_flow_name(name: str) -> str:
    """The name itself, if it can be a flow's. Raises NotationError."""
    if identity(name) in RESERVED_FLOW_NAMES:
        raise NotationError(f"may not be {shown(name)}: {', '.join(sorted(RESERVED_FLOW_NAMES))} are words of the API")
    return check_name(name)


def check_user(name: str) -> str:
    """The user's name, if it can be a directory's. Raises NotationError."""
    if not USER.fullmatch(name):
        raise NotationError(
            f"must be letters, digits, `.`, `_` and `-`, beginning with a letter or digit, not {shown(name)}"
        )
    return name
