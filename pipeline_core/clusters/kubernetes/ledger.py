"""The ledger in the control ConfigMap of a job attempt: what is known of replica attempts whose pods are gone."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any

from pipeline_core.clusters.base import ReplicaKey, ReplicaReport
from pipeline_core.common.stored import known_fields
from pipeline_core.states import ReplicaState

LEDGER_KEY = "ledger"
LIMIT_BYTES = 512 * 1024
"""A ConfigMap holds 1 MiB; a ledger above this size drops what is not necessary."""

_TIMES = ("started_at", "finished_at")


@dataclass(frozen=True, slots=True)
class AttemptLedger:
    """`launched` are the replica attempts that were created, which is not repeated; `stopped` those that a verdict or a
    stop ended; `ended` has the final reports.
    """

    launched: frozenset[ReplicaKey] = frozenset()
    stopped: frozenset[ReplicaKey] = frozenset()
    ended: Mapping[ReplicaKey, ReplicaReport] = field(default_factory=dict)

    def with_launched(self, keys: Iterable[ReplicaKey]) -> AttemptLedger:
        return replace(self, launched=self.launched | frozenset(keys))

    def with_stopped(self, keys: Iterable[ReplicaKey]) -> AttemptLedger:
        return replace(self, stopped=self.stopped | frozenset(keys))

    def with_ended(self, reports: Iterable[ReplicaReport]) -> AttemptLedger:
        """Adds final reports. The first one of a replica attempt stays."""
        added = {ReplicaKey(report.role, report.index, report.attempt): report for report in reports}
        return replace(self, ended={**added, **self.ended})


def pack(ledger: AttemptLedger) -> str:
    """The ledger as a value of a ConfigMap's `binaryData`."""
    packed = _compress(ledger, lean=False)
    if len(packed) > LIMIT_BYTES:
        packed = _compress(ledger, lean=True)
    return base64.b64encode(packed).decode()


def unpack(control: Mapping[str, Any]) -> AttemptLedger:
    """The ledger of a control ConfigMap; an empty one when it has none yet."""
    text = (control.get("binaryData") or {}).get(LEDGER_KEY)
    if not text:
        return AttemptLedger()
    stored = json.loads(gzip.decompress(base64.b64decode(text)))
    reports = [_report(fields) for fields in stored["ended"]]
    return AttemptLedger(_keys(stored["launched"]), _keys(stored["stopped"])).with_ended(reports)


def _compress(ledger: AttemptLedger, *, lean: bool) -> bytes:
    stored = {
        "launched": [[key.role, key.index, key.attempt] for key in sorted(ledger.launched)],
        "stopped": [[key.role, key.index, key.attempt] for key in sorted(ledger.stopped)],
        "ended": [_fields(report, lean) for _, report in sorted(ledger.ended.items())],
    }
    return gzip.compress(json.dumps(stored, separators=(",", ":")).encode(), mtime=0)


def _keys(stored: Iterable[list[Any]]) -> frozenset[ReplicaKey]:
    return frozenset(ReplicaKey(*parts) for parts in stored)


def _fields(report: ReplicaReport, lean: bool) -> dict[str, Any]:
    fields = {name: value for name, value in asdict(report).items() if value not in ("", None)}
    for name in _TIMES:
        if name in fields:
            fields[name] = fields[name].isoformat()
    if lean:
        fields.pop("diagnostics", None)
        fields.pop("container_id", None)
    return fields


def _report(fields: dict[str, Any]) -> ReplicaReport:
    times = {name: datetime.fromisoformat(fields[name]) for name in _TIMES if name in fields}
    return ReplicaReport(**{**known_fields(ReplicaReport, fields), **times, "state": ReplicaState(fields["state"])})
