"""Quantities of Kubernetes: numbers with a suffix, such as `500m`, `128Mi` or `1e3`.

https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from types import MappingProxyType

_FORM = re.compile(r"\+?(?P<number>\d+\.?\d*|\.\d+)(?P<suffix>[KMGTPE]i|[numkMGTPE]|[eE][+-]?\d{1,3})?", re.ASCII)

FACTORS: Mapping[str, Decimal] = MappingProxyType(
    {
        **{f"{letter}i": Decimal(1024**power) for power, letter in enumerate("KMGTPE", 1)},
        **{letter: Decimal(1000**power) for power, letter in enumerate("kMGTPE", 1)},
        **{letter: Decimal(1000) ** -power for power, letter in enumerate("mun", 1)},
    }
)
"""What each suffix stands for."""


def value(quantity: str | float) -> Decimal:
    """The value of a quantity of 0 or more. Raises ValueError when it is none."""
    found = _FORM.fullmatch(str(quantity))
    if found is None:
        raise ValueError(f'"{quantity}" is not a quantity of 0 or more, such as 2, 500m, 128Mi or 1e3')
    number, suffix = found["number"], found["suffix"] or ""
    return Decimal(number) * FACTORS[suffix] if suffix in FACTORS else Decimal(f"{number}{suffix}")
