"""`pipeline doctor` asks the cluster for the service's rights."""

from __future__ import annotations

import pytest

from pipeline_core.operations.doctor import gathering, rules
from pipeline_core.runtime import restart
from pipeline_core.settings import Settings, settings
from tests.integration.conftest import service_settings

__all__ = ["service_settings"]


@pytest.mark.parametrize(("context", "checks"), [("admin", set()), ("svc", {"cluster"})])
def test_rights_that_are_missing_are_found(
    service_settings: Settings, kubeconfig: str, monkeypatch: pytest.MonkeyPatch, context: str, checks: set[str]
) -> None:
    monkeypatch.setenv("PIPELINE_CLUSTER_DRIVER", "kubernetes")
    monkeypatch.setenv("PIPELINE_KUBECONFIG", kubeconfig)
    monkeypatch.setenv("PIPELINE_KUBE_CONTEXT", context)
    restart()
    found = rules.findings(gathering.gather(dict, other_processes=0), settings())
    # The server of the tests does not wait for its disk, and no process of a service is connected to it.
    assert {one.check for one in found} - {"durability", "processes"} == checks
    assert all("it may not create pods" in one.wrong for one in found if one.check == "cluster")
