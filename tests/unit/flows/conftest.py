from __future__ import annotations

import pytest
from flow_cases import site

from pipeline_core.flows.site import Site


@pytest.fixture(name="site", scope="session")
def site_fixture() -> Site:
    return site()
