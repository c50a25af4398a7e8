from __future__ import annotations

import re
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubernetes.utils.quantity import parse_quantity

from pipeline_core.taskset import quantities
from pipeline_core.taskset.schema import schema

PATTERN = schema()["$defs"]["EmptyDirVolumeSource"]["properties"]["sizeLimit"]["pattern"]


@pytest.mark.parametrize(
    ("quantity", "value"),
    [
        (2, "2"),
        (0.5, "0.5"),
        ("500m", "0.5"),
        ("100n", "1e-7"),
        ("+3u", "3e-6"),
        ("128Mi", "134217728"),
        ("1.5G", "1.5e9"),
        (".5k", "500"),
        ("1.", "1"),
        ("1e3", "1000"),
        ("1E3", "1000"),
        ("1E", "1e18"),
        ("1Ei", str(2**60)),
        ("2e-3", "0.002"),
        ("0", "0"),
    ],
)
def test_a_quantity_is_a_number_with_a_suffix(quantity: str | float, value: str) -> None:
    assert quantities.value(quantity) == Decimal(value)


@pytest.mark.parametrize(
    "text", ["", "many", "-1", "1 Gi", "1K", "1gi", "1mi", "0x10", "1e", "1e1234", "1_000", "NaN", "1\n", "١", ".", "+"]
)
def test_what_is_no_quantity_is_refused_by_reader_and_schema(text: str) -> None:
    with pytest.raises(ValueError, match="not a quantity"):
        quantities.value(text)
    assert re.search(PATTERN, text) is None


@given(st.from_regex(r"\A[0-9]{1,6}(\.[0-9]{1,6})?(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E)?\Z"))
def test_quantities_are_read_as_the_client_of_kubernetes_reads_them(text: str) -> None:
    assert quantities.value(text) == Decimal(parse_quantity(text))
    assert re.search(PATTERN, text)
