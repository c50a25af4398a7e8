"""Rights that are missing are named."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipeline_core.clusters.base import ClusterDenied, ClusterUnavailable
from pipeline_core.clusters.kubernetes import rights
from pipeline_core.clusters.kubernetes.api import ApiError
from tests.unit.clusters.kubernetes.fake_api import FakeApi

MANIFEST = Path(__file__).parents[4] / "docker/kustomize/jobs/rbac.yaml"


class Reviewing(FakeApi):
    """Answers reviews of rights: all are granted but those in `denied` (namespace, verb, resource)."""

    def __init__(self, denied: Collection[tuple[str, str, str]] = (), error: Exception | None = None) -> None:
        super().__init__()
        self.denied = denied
        self.error = error

    def request(self, method: str, path: str, query: Any = None, body: Any = None, **_: Any) -> dict[str, Any]:
        assert (method, path) == ("POST", rights.REVIEWS)
        if self.error:
            raise self.error
        asked = body["spec"]["resourceAttributes"]
        resource = "/".join(filter(None, (asked["resource"], asked["subresource"])))
        return {"status": {"allowed": (asked["namespace"], asked["verb"], resource) not in self.denied}}


def test_all_rights_are_enough() -> None:
    rights.check(Reviewing(), ["a", "b"])


def test_missing_rights_are_named_by_namespace() -> None:
    denied = {("a", "create", "pods"), ("a", "get", "pods/log"), ("b", "update", "configmaps")}
    with pytest.raises(ClusterDenied) as caught:
        rights.check(Reviewing(denied), ["a", "b", "c"])
    assert caught.value.message == (
        "the service lacks rights in the cluster: in a it may not create pods, get pods/log; "
        "in b it may not update configmaps"
    )


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (ApiError(401, "Unauthorized"), ClusterDenied, "refuses the service's credentials"),
        (ClusterUnavailable("the cluster cannot be reached: x"), ClusterUnavailable, "cannot be reached"),
    ],
)
def test_a_cluster_that_refuses_the_service_is_told_from_one_that_is_away(
    error: Exception, kind: type, message: str
) -> None:
    with pytest.raises(ClusterUnavailable, match=message) as caught:
        rights.check(Reviewing(error=error), ["a"])
    assert type(caught.value) is kind


def test_an_account_that_may_not_ask_for_its_rights_is_not_refused() -> None:
    rights.check(Reviewing(error=ApiError(403, "selfsubjectaccessreviews is forbidden")), ["a"])


def test_the_rights_are_those_of_the_manifest() -> None:
    role = next(one for one in yaml.safe_load_all(MANIFEST.read_text()) if one["kind"] == "Role")
    granted = {
        (kind, verb)
        for rule in role["rules"]
        if rule["apiGroups"] == [""]
        for kind in rule["resources"]
        for verb in rule["verbs"]
    }
    assert granted == {(kind, verb) for kind, verbs in rights.RIGHTS.items() for verb in verbs}
