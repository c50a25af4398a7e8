"""The rights that the service needs in each namespace of jobs, and which of them it lacks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pipeline_core.clusters.base import ClusterDenied
from pipeline_core.clusters.kubernetes.api import ApiError, KubernetesApi, refusals

RIGHTS: Mapping[str, Sequence[str]] = {
    "pods": ("create", "get", "list", "watch", "patch", "delete"),
    "pods/log": ("get",),
    "configmaps": ("create", "get", "list", "patch", "update", "delete"),
    "services": ("create", "get", "delete"),
}
"""Resources of the core API, each with the verbs that the driver uses."""

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def check(api: KubernetesApi, namespaces: Sequence[str]) -> None:
    """Raises ClusterUnavailable when the API server cannot be reached, ClusterDenied when it refuses the credentials or grants
    too little."""
    with refusals("asking for the service's rights"):
        lacking = {namespace: list(_lacking(api, namespace)) for namespace in namespaces}
    missing = [f"in {namespace} it may not {', '.join(what)}" for namespace, what in lacking.items() if what]
    if missing:
        raise ClusterDenied(f"the service lacks rights in the cluster: {'; '.join(missing)}")


def _lacking(api: KubernetesApi, namespace: str) -> Iterator[str]:
    for kind, verbs in RIGHTS.items():
        resource, _, subresource = kind.partition("/")
        for verb in verbs:
            asked = {"namespace": namespace, "verb": verb, "resource": resource, "subresource": subresource}
            review = {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": asked},
            }
            try:
                found = api.request("POST", REVIEWS, body=review)
            except ApiError as error:
                if error.status == 403:
                    # It may not even ask: the first request that is refused says what is missing.
                    return
                raise
            if not found["status"].get("allowed"):
                yield f"{verb} {kind}"
