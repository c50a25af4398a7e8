from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from pipeline_core.flows.notation.errors import NotationError
from pipeline_core.flows.notation.gpu import Gpu, read_gpu
from pipeline_core.flows.notation.site import Site
from tests.unit.flows.flow_cases import case

PLAIN = Site()


@pytest.mark.parametrize("row", case("gpu-notation.json"), ids=lambda row: repr(row["text"]))
def test_every_gpu_notation_means_what_the_table_says(row: dict[str, Any], site: Site) -> None:
    if row.get("error"):
        with pytest.raises(NotationError):
            read_gpu(row["text"], site)
        return
    gpu = read_gpu(row["text"], site)
    resource = site.gpu_resources[row["vendor"]] if "vendor" in row else row.get("resource")
    assert gpu.count == row.get("count", 0)
    assert gpu.share == (Decimal(str(row["share"])) if "share" in row else None)
    assert gpu.shared == row.get("shared", False)
    assert gpu.node_selector == row.get("nodeSelector", {})
    if row.get("count"):
        assert gpu.requests == {resource: str(row["count"])}


def test_a_share_is_asked_for_in_percent_of_a_card(site: Site) -> None:
    assert read_gpu("0.1(T4)", site).requests == {"nvidia.com/gpucores": "10", "nvidia.com/gpumem": "10"}


def test_a_share_of_memory_is_in_the_units_of_a_card_whose_memory_is_known() -> None:
    site = Site(vgpu_resource={"memory": "nvidia.com/gpumem", "memory_per_card": "16384"})
    assert read_gpu("0.5", site).requests == {"nvidia.com/gpumem": "8192"}


def test_a_share_is_refused_where_shares_are_not_given() -> None:
    with pytest.raises(NotationError, match="PIPELINE_VGPU_RESOURCE is not set"):
        read_gpu("0.5", PLAIN)


def test_a_shared_card_is_not_counted(site: Site) -> None:
    assert read_gpu(-1, site) == Gpu(shared=True, resource="nvidia.com/gpu", requests={})


@pytest.mark.parametrize(
    "text", ["1(V 100)", "1(-)", "0.123", "1(a,b,c)", "1(npu,)", "0.5(npu)", "１", "1(V100)x", "٣"]
)
def test_what_is_no_gpu_notation_is_refused(text: str, site: Site) -> None:
    with pytest.raises(NotationError):
        read_gpu(text, site)
