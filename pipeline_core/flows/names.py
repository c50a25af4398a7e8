"""Names of flows, tasks and users, and which of them are the same."""

from __future__ import annotations

import re

from pipeline_core.body import shown
from pipeline_core.flows.faults import Fault

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,53}")
USER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def identity(name: str) -> str:
    """What a flow's or task's name is told apart by: in lower case, with `-` for `_`."""
    return name.lower().replace("_", "-")


def check_name(name: str) -> str:
    """The name itself. Raises Fault."""
    if not NAME.fullmatch(name):
        raise Fault(f"must be a letter and at most 53 letters, digits, `_` and `-`, not {shown(name)}")
    return name


def check_user(name: str) -> str:
    """The user's name, if it can be a directory's. Raises Fault."""
    if not USER.fullmatch(name):
        raise Fault(f"must be letters, digits, `.`, `_` and `-`, beginning with a letter or digit, not {shown(name)}")
    return name
