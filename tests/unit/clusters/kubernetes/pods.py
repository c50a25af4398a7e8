"""Pods as an API server returns them, for tables of cases."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

NOW = datetime.fromisoformat("2026-03-01T12:00:00Z")


def at(seconds: float) -> str:
    """A time so many seconds from now, as Kubernetes writes it."""
    return (NOW + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def running(since: float = -50) -> dict[str, Any]:
    return {"state": {"running": {"startedAt": at(since)}}}


def ended(code: int, reason: str = "", message: str = "", finished: float = -10, **fields: Any) -> dict[str, Any]:
    terminated = {
        "exitCode": code,
        "reason": reason or ("Error" if code else "Completed"),
        "message": message,
        "startedAt": at(-50),
        "finishedAt": at(finished),
    }
    return {"state": {"terminated": {**terminated, **fields}}}


def waiting(reason: str, message: str = "", **fields: Any) -> dict[str, Any]:
    return {"state": {"waiting": {"reason": reason, "message": message}}, **fields}


def make(
    phase: str,
    *statuses: dict[str, Any],
    inits: tuple[dict[str, Any], ...] = (),
    init_fields: dict[str, Any] | None = None,
    node: str = "node",
    age: float = 60,
    annotations: dict[str, str] | None = None,
    deleted: float | None = None,
    spec: dict[str, Any] | None = None,
    **status: Any,
) -> dict[str, Any]:
    """A pod of one container per status, `c0`, `c1`…, and init containers `i0`…; `age` in seconds.

    `deleted` is when it has to be gone, in seconds from now; it was asked for 30 s before.
    """
    going = {} if deleted is None else {"deletionTimestamp": at(deleted), "deletionGracePeriodSeconds": 30}
    count = max(1, len(statuses))
    return {
        "metadata": {
            "name": "j1-worker-0-1-2",
            "uid": "uid",
            "creationTimestamp": at(-age),
            "labels": {
                "pipeline/job-id": "j1",
                "pipeline/role": "worker",
                "pipeline/replica-index": "2",
                "pipeline/attempt": "0",
                "pipeline/replica-attempt": "1",
            },
            "namespace": "ns",
            "ownerReferences": [{"kind": "ConfigMap", "name": "c-j1-0", "uid": "uid-of-c"}],
            "annotations": annotations or {},
            **going,
        },
        "spec": {
            **({"nodeName": node} if node else {}),
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 30,
            "initContainers": [{"name": f"i{number}", **(init_fields or {})} for number in range(len(inits))],
            "containers": [{"name": f"c{number}"} for number in range(count)],
            **(spec or {}),
        },
        "status": {
            "phase": phase,
            **({"startTime": at(-age)} if node else {}),
            "initContainerStatuses": [{"name": f"i{number}", **one} for number, one in enumerate(inits)],
            "containerStatuses": [{"name": f"c{number}", **one} for number, one in enumerate(statuses)],
            **status,
        },
    }
