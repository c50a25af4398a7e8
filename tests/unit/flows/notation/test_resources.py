from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_core.flows.notation.errors import NotationError
from pipeline_core.flows.notation.gpu import read_gpu
from pipeline_core.flows.notation.mounts import read_mounts
from pipeline_core.flows.notation.resources import (
    Amount,
    read_cpu,
    read_memory,
    read_node_selector,
    read_rdma,
)
from pipeline_core.flows.notation.site import Site

PLAIN = Site()


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("2", Amount("2", "2")),
        (2, Amount("2", "2")),
        (0.5, Amount("0.5", "0.5")),
        ("2~4", Amount("2", "4")),
        (" 0.5 ~ 0.5 ", Amount("0.5", "0.5")),
        ("", None),
        (None, None),
    ],
)
def test_cpu_is_a_request_and_a_limit(text: object, amount: Amount | None) -> None:
    assert read_cpu(text) == amount


@pytest.mark.parametrize("text", ["0", "-1", "nan", "1e3", "2~", "~2", "4~2", "1~2~3", "2c", "+1", True, [], "1.0005"])
def test_what_is_no_cpu_is_refused(text: object) -> None:
    with pytest.raises(NotationError):
        read_cpu(text)


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("2G", Amount("2G", "2G")),
        ("500M~1Gi", Amount("500M", "1Gi")),
        ("1000Mi~1G", None),
        ("1G~1000M", Amount("1G", "1000M")),
    ],
)
def test_memory_keeps_its_units(text: str, amount: Amount | None) -> None:
    if amount is None:
        with pytest.raises(NotationError, match="asks for more than its limit"):
            read_memory(text)
    else:
        assert read_memory(text) == amount


@pytest.mark.parametrize("text", ["2", "2g", "2T", "0G", "1.5G", "8G~2G", "-2G", "G"])
def test_what_is_no_memory_is_refused(text: str) -> None:
    with pytest.raises(NotationError):
        read_memory(text)


@given(st.text(max_size=12))
def test_any_text_is_read_or_refused(text: str) -> None:
    readers = [
        lambda: read_cpu(text),
        lambda: read_memory(text),
        lambda: read_gpu(text, PLAIN),
        lambda: read_rdma(text, PLAIN),
        lambda: read_mounts(text, "ann", PLAIN),
        lambda: read_node_selector(text),
    ]
    for reader in readers:
        with suppress(NotationError):
            reader()


def test_rdma_is_a_number_of_devices_where_there_are_any(site: Site) -> None:
    assert [read_rdma(text, site) for text in ("", "0", 1)] == [0, 0, 1]
    with pytest.raises(NotationError, match="PIPELINE_RDMA_RESOURCE"):
        read_rdma("1", PLAIN)
    with pytest.raises(NotationError, match="whole number"):
        read_rdma("0.5", site)


@pytest.mark.parametrize(
    ("text", "selector"),
    [
        ("", {}),
        ("org=a;train=true", {"org": "a", "train": "true"}),
        ("k8s.io/arch=arm64\nx=", {"k8s.io/arch": "arm64", "x": ""}),
    ],
)
def test_node_selectors_are_labels(text: str, selector: dict[str, str]) -> None:
    assert read_node_selector(text) == selector


@pytest.mark.parametrize("text", ["org", "=a", "a=b c", "a=1,a=2", "a/b/c=1", "org=a,b"])
def test_what_is_no_node_selector_is_refused(text: str) -> None:
    with pytest.raises(NotationError):
        read_node_selector(text)
