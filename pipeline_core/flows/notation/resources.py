"""Notation of resources: CPU, memory, RDMA devices and node selectors. All readers raise NotationError."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from pipeline_core.flows.notation.errors import NotationError
from pipeline_core.flows.notation.site import Site
from pipeline_core.validation.texts import shown

MAX_CARDS = 1000
"""Cards or devices that one task may ask for."""

_CPU = re.compile(r"[0-9]{1,6}(\.[0-9]{1,3})?")
_MEMORY = re.compile(r"([0-9]{1,15})([GM]i?)")
_UNITS = {"M": 10**6, "G": 10**9, "Mi": 2**20, "Gi": 2**30}
_CARDS = re.compile(r"0|[1-9][0-9]*")
_LABEL_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
LABEL_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_SEPARATORS = re.compile(r"[;,\n\t]")
_HALF_WIDTH = str.maketrans("（），", "(),")


@dataclass(frozen=True, slots=True)
class Amount:
    """Request and limit, as Kubernetes quantities."""

    request: str
    limit: str


def as_text(value: object) -> str:
    """A text or number as text, stripped, full-width brackets and commas replaced; null becomes empty. Raises NotationError."""
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise NotationError(f"must be a text or number, not {shown(value)}")
    return str(value).translate(_HALF_WIDTH).strip()


def read_cpu(value: object) -> Amount | None:
    """`2`, `0.5` or, as request and limit, `2~4`; None when the text is empty."""

    def cores(text: str) -> Decimal | None:
        return Decimal(text) if _CPU.fullmatch(text) and Decimal(text) > 0 else None

    return _amount(as_text(value), cores, "cores above 0, as `2`, `0.5` or `2~4` (request~limit)")


def read_memory(value: object) -> Amount | None:
    """`2G`, `500M` (also `Gi`, `Mi`) or, as request and limit, `2G~4G`; None when the text is empty."""

    def bytes_(text: str) -> Decimal | None:
        match = _MEMORY.fullmatch(text)
        return Decimal(int(match[1]) * _UNITS[match[2]]) if match and int(match[1]) else None

    return _amount(
        as_text(value), bytes_, "a whole number with G, M, Gi or Mi, as `2G`, `500M` or `2G~4G` (request~limit)"
    )


def _amount(text: str, size: Callable[[str], Decimal | None], right: str) -> Amount | None:
    if not text:
        return None
    parts = [part.strip() for part in text.split("~")]
    sizes = [found for part in parts if (found := size(part)) is not None]
    if len(sizes) < len(parts) or len(parts) > 2:
        raise NotationError(f"must be {right}, not {shown(text)}")
    if sizes[0] > sizes[-1]:
        raise NotationError(
            f"asks for more than its limit ({parts[0]} and {parts[-1]}): the request comes first, then the limit"
        )
    return Amount(parts[0], parts[-1])


def read_rdma(value: object, site: Site) -> int:
    """The number of RDMA devices."""
    text = as_text(value)
    count = cards(text) if text else 0
    if count is None:
        raise NotationError(f"must be a whole number from 0 to {MAX_CARDS}, not {shown(text)}")
    if count and not site.rdma_resource:
        raise NotationError(
            "asks for RDMA devices, of which this installation has none (PIPELINE_RDMA_RESOURCE is not set)"
        )
    return count


def cards(text: str) -> int | None:
    """A number of whole devices; None when the text is none or too large."""
    return int(text) if _CARDS.fullmatch(text) and len(text) < 5 and int(text) <= MAX_CARDS else None


def read_node_selector(value: object) -> dict[str, str]:
    """Labels that a node must have: `key=value`, several separated by `,`, `;`, tabs or new lines."""
    selector: dict[str, str] = {}
    for piece in filter(None, (part.strip() for part in _SEPARATORS.split(as_text(value)))):
        key, equals, label = (part.strip() for part in piece.partition("="))
        if not equals or not _is_label_key(key) or (label and not LABEL_VALUE.fullmatch(label)):
            raise NotationError(
                f"must be labels of nodes, as `key=value`, separated by `,` or `;`; {shown(piece)} is none"
            )
        if selector.setdefault(key, label) != label:
            raise NotationError(f"asks for {key} twice, as {selector[key]} and as {label}")
    return selector


def _is_label_key(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    return bool(LABEL_VALUE.fullmatch(name)) and (not slash or bool(_LABEL_PREFIX.fullmatch(prefix)))
