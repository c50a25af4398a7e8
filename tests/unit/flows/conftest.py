from __future__ import annotations

import pytest

from pipeline_core.flows.notation.site import Site
from tests.unit.flows.flow_cases import site


@pytest.fixture(name="site", scope="session")
def site_fixture() -> Site:
    return site()
