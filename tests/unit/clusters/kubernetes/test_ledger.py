"""The ledger of an attempt: read as it was written, and small enough for a ConfigMap."""

from __future__ import annotations

import base64
import gzip
import json
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_core.clusters.base import ReplicaKey, ReplicaReport
from pipeline_core.clusters.kubernetes import ledger as ledgers
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


def test_a_control_configmap_without_a_ledger_has_an_empty_one() -> None:
    assert unpack({}) == AttemptLedger()


def test_fields_of_a_newer_version_are_left_out() -> None:
    key = ReplicaKey("worker", 0, 0)
    ledger = AttemptLedger().with_ended([report(key)])
    document = json.loads(gzip.decompress(base64.b64decode(pack(ledger))))
    document["ended"][0]["addedLater"] = 1
    newer = base64.b64encode(gzip.compress(json.dumps(document).encode())).decode()
    assert unpack({"binaryData": {LEDGER_KEY: newer}}) == ledger


def test_the_first_final_report_stays() -> None:
    key = ReplicaKey("worker", 0)
    ledger = AttemptLedger().with_ended([report(key, reason="first")]).with_ended([report(key, reason="second")])
    assert ledger.ended[key].reason == "first"


def test_a_large_ledger_drops_what_is_not_necessary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledgers, "LIMIT_BYTES", 10_000)
    text = random.Random(1).randbytes
    keys = [ReplicaKey("worker", index) for index in range(100)]
    made = AttemptLedger().with_ended(report(key, diagnostics=text(2000).hex(), exit_code=1) for key in keys)
    packed = pack(made)
    assert len(base64.b64decode(packed)) < 10_000
    assert {one.diagnostics for one in stored(made).ended.values()} == {""}
    assert {one.exit_code for one in stored(made).ended.values()} == {1}


def test_ten_thousand_replicas_fit_into_a_configmap() -> None:
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
