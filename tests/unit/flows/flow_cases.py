from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from pipeline_core.flows.notation.dag import Dag
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


@st.composite
def dags(draw: st.DrawFn) -> Dag:
    """Small DAGs of any form."""
    names = [f"t{number}" for number in range(draw(st.integers(1, 15)))]
    return Dag.of(
        {
            name: draw(st.lists(st.sampled_from(names[:place]), unique=True, max_size=3)) if place else []
            for place, name in enumerate(names)
        }
    )
