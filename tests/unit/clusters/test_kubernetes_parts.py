"""The ledger, and what errors of the API mean."""

from __future__ import annotations

import base64
import io
import json
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import urllib3
from hypothesis import given
from hypothesis import strategies as st
from kubernetes import client

from pipeline_core.clusters.base import ClusterError, ClusterUnavailable, ReplicaKey, ReplicaReport
from pipeline_core.clusters.kubernetes import ledger as ledgers
from pipeline_core.clusters.kubernetes.api import Api, ApiError, cluster_error
from pipeline_core.clusters.kubernetes.ledger import LEDGER_KEY, AttemptLedger, pack, unpack
from pipeline_core.states import ReplicaState

NOW = datetime(2026, 3, 1, 12, 0, 0, 123456, UTC)
KEYS = st.builds(ReplicaKey, st.sampled_from(["ps", "worker"]), st.integers(0, 9), st.integers(0, 3))


def report(key: ReplicaKey, **fields: Any) -> ReplicaReport:
    return ReplicaReport(key.role, key.index, ReplicaState.FAILED, key.attempt, **fields)


def stored(ledger: AttemptLedger) -> AttemptLedger:
    return unpack({"binaryData": {LEDGER_KEY: pack(ledger)}})


@given(st.frozensets(KEYS), st.frozensets(KEYS), st.frozensets(KEYS), st.none() | st.integers(0, 255))
def test_a_ledger_is_read_as_it_was_written(launched: Any, stopped: Any, ended: Any, code: int | None) -> None:
    made = AttemptLedger(launched, stopped).with_ended(report(key, exit_code=code, finished_at=NOW) for key in ended)
    assert stored(made) == made


def test_a_control_unit_without_a_ledger_remembers_nothing() -> None:
    assert unpack({}) == AttemptLedger()


def test_how_a_try_ended_is_written_down_once() -> None:
    key = ReplicaKey("worker", 0)
    ledger = AttemptLedger().with_ended([report(key, reason="first")]).with_ended([report(key, reason="second")])
    assert ledger.ended[key].reason == "first"


def test_a_large_ledger_goes_without_what_is_only_good_to_know(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledgers, "LIMIT_BYTES", 10_000)
    text = random.Random(1).randbytes
    keys = [ReplicaKey("worker", index) for index in range(100)]
    made = AttemptLedger().with_ended(report(key, diagnostics=text(2000).hex(), exit_code=1) for key in keys)
    packed = pack(made)
    assert len(base64.b64decode(packed)) < 10_000
    assert {one.diagnostics for one in stored(made).ended.values()} == {""}
    assert {one.exit_code for one in stored(made).ended.values()} == {1}


def test_ten_thousand_replicas_fit_into_a_control_unit() -> None:
    text = random.Random(1).randbytes
    made = AttemptLedger(frozenset(ReplicaKey("worker", index) for index in range(10_000))).with_ended(
        report(
            ReplicaKey("worker", index),
            exit_code=1,
            reason="Error",
            started_at=NOW,
            finished_at=NOW + timedelta(seconds=index),
            pod_name=f"j01jqz0000000000000000000000-worker-0-0-{index}",
            pod_uid=text(16).hex(),
            container_id=f"containerd://{text(32).hex()}",
            diagnostics=text(500).hex(),
        )
        for index in range(10_000)
    )
    assert len(base64.b64decode(pack(made))) < 900 * 1024


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
def test_a_refusal_is_for_good_unless_somebody_may_mend_it(status: int, message: str, kind: type) -> None:
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


def api(*answers: Any) -> tuple[Api, Server, list[float]]:
    server, slept = Server(*answers), []
    made = client.ApiClient(client.Configuration(host="http://127.0.0.1:1"))
    made.rest_client.pool_manager = server
    return Api(made, slept.append), server, slept


BUSY = (429, {"Retry-After": "2"}, {"message": "too many requests"})
BROKEN = (503, {}, {"message": "etcd is away"})


def test_what_is_busy_or_broken_is_asked_again_as_late_as_it_says() -> None:
    made, server, slept = api(BUSY, BROKEN, urllib3.exceptions.ProtocolError("reset"), (200, {}, {"a": 1}))
    assert made.request("GET", "/x") == {"a": 1}
    assert server.answers == []
    assert slept[0] >= 1.6
    assert len(slept) == 3


@pytest.mark.parametrize("answer", [BUSY, BROKEN, urllib3.exceptions.ConnectTimeoutError("slow")])
def test_what_stays_so_is_away(answer: Any) -> None:
    made, _, slept = api(*[answer] * 4)
    with pytest.raises(ClusterUnavailable):
        made.request("GET", "/x")
    assert len(slept) == 3


def test_a_refusal_is_told_as_the_server_puts_it_and_not_asked_again() -> None:
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
