"""Requests that are repeated, and what errors of the API mean for a job."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
import urllib3
from kubernetes import client

from pipeline_core.clusters.base import ClusterError, ClusterUnavailable
from pipeline_core.clusters.kubernetes.api import ApiError, KubernetesApi, cluster_error


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (422, "Pod is invalid", ClusterError),
        (400, "unknown field", ClusterError),
        (404, 'namespaces "x" not found', ClusterError),
        (403, 'pods "x" is forbidden: violates PodSecurity "restricted:latest"', ClusterError),
        (403, 'pods "x" is forbidden: exceeded quota: q, requested: pods=1', ClusterUnavailable),
        (403, 'pods is forbidden: User "u" cannot create resource "pods" in API group ""', ClusterUnavailable),
        (401, "Unauthorized", ClusterUnavailable),
        (409, "the object has been modified", ClusterUnavailable),
    ],
)
def test_an_api_error_is_permanent_unless_it_can_be_repaired(status: int, message: str, kind: type) -> None:
    assert type(cluster_error(ApiError(status, message), "launching")) is kind


class Server:
    """Answers requests by what it was given, one after the other."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    def request(self, *_: Any, **__: Any) -> Any:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        status, headers, body = answer
        return urllib3.HTTPResponse(
            io.BytesIO(json.dumps(body).encode()),
            status=status,
            headers=headers,
            preload_content=False,
            reason="reason",
        )


def api(*answers: Any) -> tuple[KubernetesApi, Server, list[float]]:
    server, slept = Server(*answers), []
    made = client.ApiClient(client.Configuration(host="http://127.0.0.1:1"))
    made.rest_client.pool_manager = server
    return KubernetesApi(made, slept.append), server, slept


BUSY = (429, {"Retry-After": "2"}, {"message": "too many requests"})
BROKEN = (503, {}, {"message": "etcd is away"})


def test_a_busy_or_broken_server_is_retried_after_its_retry_after() -> None:
    made, server, slept = api(BUSY, BROKEN, urllib3.exceptions.ProtocolError("reset"), (200, {}, {"a": 1}))
    assert made.request("GET", "/x") == {"a": 1}
    assert server.answers == []
    assert slept[0] >= 1.6
    assert len(slept) == 3


@pytest.mark.parametrize("answer", [BUSY, BROKEN, urllib3.exceptions.ConnectTimeoutError("slow")])
def test_a_server_that_stays_busy_or_broken_is_unavailable(answer: Any) -> None:
    made, _, slept = api(*[answer] * 4)
    with pytest.raises(ClusterUnavailable):
        made.request("GET", "/x")
    assert len(slept) == 3


def test_a_refusal_has_the_message_of_the_server_and_is_not_repeated() -> None:
    made, _, slept = api((422, {}, {"message": "wrong"}))
    with pytest.raises(ApiError, match="wrong") as caught:
        made.request("POST", "/x", body={})
    assert (caught.value.status, slept) == (422, [])
    made, *_ = api((404, {}, "no JSON object"))
    with pytest.raises(ApiError, match="no JSON"):
        made.request("GET", "/x")


def test_a_list_is_read_page_by_page() -> None:
    pages = [
        (200, {}, {"metadata": {"continue": "more"}, "items": [1, 2]}),
        (200, {}, {"metadata": {}, "items": [3]}),
    ]
    made, *_ = api(*pages)
    assert list(made.items("/x", "a=b")) == [1, 2, 3]
