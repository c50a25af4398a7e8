"""Plays the scheduler and the kubelet: binds pods, and writes statuses as a node would."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from pipeline_core.clusters.kubernetes.api import MERGE, KubernetesApi

NODE = "no-such-node"


def stamp(moment: datetime | None = None) -> str:
    return (moment or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%SZ")


def running() -> dict[str, Any]:
    return {"running": {"startedAt": stamp()}}


def terminated(code: int, reason: str = "", message: str = "", **fields: Any) -> dict[str, Any]:
    reason = reason or ("Error" if code else "Completed")
    state = {"exitCode": code, "reason": reason, "message": message, "startedAt": stamp(), "finishedAt": stamp()}
    return {"terminated": {**state, **fields}}


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    return {"waiting": {"reason": reason, "message": message}}


class Kubelet:
    """Of one namespace, on one node."""

    def __init__(self, api: KubernetesApi, namespace: str, node: str = NODE) -> None:
        self._api = api
        self._node = node
        self._pods = f"/api/v1/namespaces/{namespace}/pods"

    def pod(self, name: str) -> dict[str, Any]:
        return self._api.request("GET", f"{self._pods}/{name}")

    def names(self) -> list[str]:
        return sorted(pod["metadata"]["name"] for pod in self._api.request("GET", self._pods)["items"])

    def create(self, name: str) -> None:
        """A pod that has nothing to do with us."""
        spec = {"containers": [{"name": "main", "image": "i"}]}
        self._api.request("POST", self._pods, body={"metadata": {"name": name}, "spec": spec})

    def bind(self, name: str) -> None:
        body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": self._node}}
        self._api.request("POST", f"{self._pods}/{name}/binding", body=body)

    def report(
        self,
        name: str,
        phase: str,
        containers: Mapping[str, dict[str, Any]] | None = None,
        *,
        init: Mapping[str, dict[str, Any]] | None = None,
        restarts: int = 0,
        last: dict[str, Any] | None = None,
        **status: Any,
    ) -> None:
        """Write a pod's status; `containers` and `init` are their states by name, `last` is how their last runs ended."""
        if not self.pod(name)["spec"].get("nodeName"):
            self.bind(name)
        same = {"image": "i", "imageID": "", "ready": False, "restartCount": restarts, "lastState": last or {}}
        statuses, inits = (
            [{"name": key, "state": state, **same} for key, state in (states or {}).items()]
            for states in (containers, init)
        )
        written = {
            "phase": phase,
            "startTime": stamp(),
            "containerStatuses": statuses,
            "initContainerStatuses": inits,
            **status,
        }
        self._api.request("PATCH", f"{self._pods}/{name}/status", body={"status": written}, content=MERGE)

    def annotate(self, name: str, notes: Mapping[str, str]) -> None:
        self._api.request(
            "PATCH", f"{self._pods}/{name}", body={"metadata": {"annotations": dict(notes)}}, content=MERGE
        )

    def run(self, name: str) -> None:
        self.report(name, "Running", {"main": running()})

    def finish(self, name: str, code: int = 0, **fields: Any) -> None:
        self.report(name, "Failed" if code else "Succeeded", {"main": terminated(code, **fields)})

    def remove(self, name: str, grace: int = 0) -> None:
        self._api.request("DELETE", f"{self._pods}/{name}", body={"gracePeriodSeconds": grace})
