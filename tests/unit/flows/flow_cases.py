from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pipeline_core.flows.notation.site import Site

CASES = Path(__file__).parents[2] / "cases" / "flows"


def case(name: str) -> Any:
    """The document of a file in tests/cases/flows."""
    return json.loads((CASES / name).read_text())


def site() -> Site:
    """The installation that the cases are written for."""
    settings = case("settings.json")
    return Site(
        projects=(settings["PIPELINE_PROJECTS"],),
        host_paths=(settings["PIPELINE_HOST_PATHS"],),
        secrets=("licence",),
        gpu_resources=settings["PIPELINE_GPU_RESOURCES"],
        vgpu_resource=settings["PIPELINE_VGPU_RESOURCE"],
        rdma_resource=settings["PIPELINE_RDMA_RESOURCE"],
    )
