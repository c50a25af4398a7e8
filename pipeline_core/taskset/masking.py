"""Values of environment variables that may be secrets are shown to nobody: in a trail, in the reason of a conflict."""

from __future__ import annotations

import re
from typing import Any

MASK = "***"

_SECRET = re.compile(
    r"secret|token|passw|passphrase|pwd|credential|auth|(api|access|private|signing|encryption)[_-]?key", re.I
)


def looks_secret(name: Any) -> bool:
    """Whether a variable of this name may hold a secret."""
    return isinstance(name, str) and bool(_SECRET.search(name))


def masked(value: Any) -> Any:
    """`value` with MASK in place of the `value` of each object in it whose `name` looks secret."""
    if isinstance(value, list):
        return [masked(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    result = {key: masked(inner) for key, inner in value.items()}
    if "value" in result and looks_secret(result.get("name")):
        result["value"] = MASK
    return result
