from __future__ import annotations

import pytest

from pipeline_core.flows.definition.catalogue import BUILT_IN, Catalogue
from pipeline_core.flows.definition.templates import (
    BUILT_IN_BEHAVIOURS,
)
from pipeline_core.flows.notation.errors import NotationError


def test_what_is_built_in_is_there_under_all_its_names() -> None:
    catalogue = Catalogue()
    assert catalogue.find("自定义镜像") is catalogue.find("customize")
    assert set(catalogue.names) == set(BUILT_IN_BEHAVIOURS) == set(BUILT_IN)
    with pytest.raises(NotationError, match='"no-such"'):
        catalogue.find("no-such")
