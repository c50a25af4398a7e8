"""Objects that were stored as documents, perhaps by a newer version of the service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any


def known_fields(of_class: Any, stored: Mapping[str, Any]) -> dict[str, Any]:
    """Those entries of a stored document that are fields of this dataclass.

    Processes of two versions run side by side during an upgrade, and the newer one may have written more.
    """
    names = {field.name for field in fields(of_class)}
    return {name: value for name, value in stored.items() if name in names}
