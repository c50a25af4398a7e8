"""Notation of GPUs: whole cards, perhaps of a vendor and model, a share of one card, or a shared card."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from pipeline_core.flows.notation.errors import NotationError
from pipeline_core.flows.notation.resources import LABEL_VALUE, MAX_CARDS, as_text, cards
from pipeline_core.flows.notation.site import GPU, Site
from pipeline_core.validation.texts import shown

MODEL_LABEL = "gpu-type"
"""Label of nodes that says which model of GPU they have."""

_NOTATION = re.compile(r"([^()]*?)\s*(?:\(([^()]*)\))?")
_SHARE = re.compile(r"0\.[0-9]{1,2}")
_RIGHT = (
    f"must be a number of cards from 0 to {MAX_CARDS}, a share of one card as `0.1`, or `-1` for a shared card, perhaps with a "
    "model or vendor, as `1(V100)`, `1(npu)` or `1(npu,910B)`"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Gpu:
    """GPUs of a task: `count` whole cards, or a `share` of one, or a `shared` card, which is not requested.

    `resource` is the vendor's resource name, empty without GPUs. `requests` are quantities by resource name; `memory` of a
    share is in percent unless the installation says how much a card has.
    """

    count: int = 0
    share: Decimal | None = None
    shared: bool = False
    vendor: str = GPU
    resource: str = ""
    model: str = ""
    requests: Mapping[str, str]

    @property
    def node_selector(self) -> dict[str, str]:
        return {MODEL_LABEL: self.model} if self.model else {}


def read_gpu(value: object, site: Site) -> Gpu:
    """The meaning of a task's `resource_gpu`; the empty text is no GPU. Raises NotationError."""
    text = as_text(value)
    match = _NOTATION.fullmatch(text)
    if not match:
        raise NotationError(f"{_RIGHT}, not {shown(text)}")
    amount, inner = match[1].strip(), match[2]
    if not text:
        return Gpu(requests={})
    vendor, model = _kind(inner, site) if inner is not None else (GPU, "")
    resource = site.gpu_resources.get(vendor, "nvidia.com/gpu")
    if amount == "-1":
        return Gpu(shared=True, vendor=vendor, resource=resource, model=model, requests={})
    if (count := cards(amount)) is not None:
        requests = {resource: str(count)} if count else {}
        return Gpu(count=count, vendor=vendor, resource=resource if count else "", model=model, requests=requests)
    if not _SHARE.fullmatch(amount) or not Decimal(amount):
        raise NotationError(f"{_RIGHT}, not {shown(text)}")
    if vendor != GPU:
        raise NotationError(f"asks for a share of a card of {vendor}; those are given as whole cards only")
    return _share(Decimal(amount), model, site)


def _share(share: Decimal, model: str, site: Site) -> Gpu:
    table = site.vgpu_resource
    if "cores" not in table and "memory" not in table:
        raise NotationError(
            "asks for a share of a card, which this installation does not give (PIPELINE_VGPU_RESOURCE is not set)"
        )
    wholes = {"cores": 100, "memory": int(table.get("memory_per_card", 100))}
    requests = {table[part]: str(max(1, int(share * whole))) for part, whole in wholes.items() if part in table}
    return Gpu(share=share, resource=table.get("cores") or table["memory"], model=model, requests=requests)


def _kind(inner: str, site: Site) -> tuple[str, str]:
    """Vendor and model. A single word that is no vendor is a model."""
    words = [word.strip() for word in inner.split(",")]
    if len(words) > 2 or not all(LABEL_VALUE.fullmatch(word) for word in words):
        raise NotationError(f"{_RIGHT}; {shown(inner)} is no model or vendor")
    vendor = words[0].lower()
    if vendor in site.gpu_resources:
        return vendor, words[1].upper() if len(words) == 2 else ""
    if len(words) == 2:
        raise NotationError(
            f"names the vendor {shown(words[0])}; this installation knows {', '.join(site.gpu_resources)}"
        )
    return GPU, words[0].upper()
