"""Requests that are repeated, and what errors of the API mean for a job."""

from __future__ import annotations

import io
import json
import ssl
from typing import Any

import pytest
import urllib3
from kubernetes import client

from pipeline_core.clusters.base import ClusterDenied, ClusterError, ClusterUnavailable
from pipeline_core.clusters.kubernetes.api import ApiError, KubernetesApi, cluster_error
from pipeline_core.errors import ConfigurationError
from pipeline_core.metrics.totals import Metric, Totals


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (422, "Pod is invalid", ClusterError),
        (400, "unknown field", ClusterError),
        (404, 'namespaces "x" not found', ClusterError),
        (403, 'pods "x" is forbidden: violates PodSecurity "restricted:latest"', ClusterError),
        (403, 'pods "x" is forbidden: exceeded quota: q, requested: pods=1', ClusterUnavailable),
        (403, 'pods is forbidden: User "u" cannot create resource "pods" in API group ""', ClusterDenied),
        (401, "Unauthorized", ClusterDenied),
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


def reloading(first: Any, *reloads: Any) -> tuple[KubernetesApi, list[Any]]:
    """An API whose client gets these answers; after a refusal it is made anew, each time with the next of `reloads`."""
    made, *_ = api(*first)
    clients = [api(*answers)[0]._client for answers in reloads]
    left = list(clients)
    made._reload = lambda: left.pop(0)
    return made, left


REFUSED = (401, {}, {"message": "Unauthorized"})


def test_refused_credentials_are_read_again() -> None:
    made, left = reloading([REFUSED], [(200, {}, {"a": 1}), (200, {}, {"a": 2})])
    assert made.request("GET", "/x") == {"a": 1}
    assert made.request("GET", "/x") == {"a": 2}
    assert left == []


def test_credentials_that_stay_refused_are_not_read_again_at_each_request() -> None:
    made, left = reloading([REFUSED], [REFUSED, REFUSED], [])
    for _ in range(2):
        with pytest.raises(ApiError, match="Unauthorized"):
            made.request("GET", "/x")
    assert len(left) == 1


def test_a_file_that_is_gone_when_credentials_are_read_again_leaves_the_refusal() -> None:
    made, *_ = api(REFUSED)

    def missing() -> Any:
        raise ConfigurationError("no such file")

    made._reload = missing
    with pytest.raises(ApiError, match="Unauthorized"):
        made.request("GET", "/x")


POOL = urllib3.connectionpool.HTTPSConnectionPool("10.0.0.1", 6443)


def refused_by_os() -> Exception:
    error = urllib3.exceptions.NewConnectionError(POOL, "Failed to establish a new connection to 10.0.0.1")
    error.__cause__ = ConnectionRefusedError(111, "Connection refused")
    return error


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (refused_by_os(), "Connection refused"),
        (urllib3.exceptions.ConnectTimeoutError(POOL, "Connection to 10.0.0.1 timed out"), "does not answer in time"),
        (urllib3.exceptions.ReadTimeoutError(POOL, "/api", "Read timed out"), "does not answer in time"),
        (urllib3.exceptions.NameResolutionError("api.secret", POOL, OSError(-2, "unknown")), "name cannot be resolved"),
        (
            urllib3.exceptions.SSLError(ssl.SSLCertVerificationError(1, "[SSL] for 10.0.0.1")),
            "TLS: the handshake failed",
        ),
        (
            urllib3.exceptions.ProtocolError("Connection aborted", ConnectionResetError(104, "Connection reset")),
            "reset",
        ),
        (urllib3.exceptions.HTTPError("10.0.0.1"), "the connection broke"),
    ],
)
def test_users_are_shown_why_a_connection_failed_and_not_the_address(error: Exception, text: str) -> None:
    made, *_ = api(*[error] * 4)
    with pytest.raises(ClusterUnavailable, match=text) as caught:
        made.request("GET", "/x")
    assert "10.0.0.1" not in caught.value.message
    assert "api.secret" not in caught.value.message


@pytest.mark.parametrize(("answer", "label"), [(BUSY, "429"), (REFUSED, "401"), (refused_by_os(), "unreachable")])
def test_requests_that_are_not_served_are_counted(answer: Any, label: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[tuple[Metric, tuple[str, ...]]] = []
    monkeypatch.setattr(Totals, "count", lambda self, metric, labels: counted.append((metric, labels)))
    made, *_ = api(answer, (200, {}, {}))
    if label == "401":
        with pytest.raises(ApiError):
            made.request("GET", "/x")
    else:
        made.request("GET", "/x")
    assert counted == [(Metric.CLUSTER_ERRORS, (label,))]


def test_refusals_that_belong_to_the_work_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[Any] = []
    monkeypatch.setattr(Totals, "count", lambda self, *labels: counted.append(labels))
    for status in (400, 404, 409, 410):
        made, *_ = api((status, {}, {"message": "no"}))
        with pytest.raises(ApiError):
            made.request("GET", "/x")
    assert counted == []
