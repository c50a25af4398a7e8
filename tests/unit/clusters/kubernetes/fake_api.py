"""An API server in memory, with as much of its behaviour as the driver relies on."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Event
from typing import Any

from pipeline_core.clusters.kubernetes.api import MERGE, ApiError, KubernetesApi

Json = dict[str, Any]
GONE = {"type": "ERROR", "object": {"code": 410, "message": "too old resource version"}}


class FakeApi(KubernetesApi):
    """Objects by path. `requests` are the method and path of each request; `refusals` answer before the objects do.

    `watches` are the events of each watch that is opened, one list after the other; a watch beyond them stays silent until
    `closed` is set. `cut` ends each watch in the middle of its last line. `logs` has the text of the log of each pod.
    """

    def __init__(self) -> None:
        self.objects: dict[str, Json] = {}
        self.requests: list[tuple[str, str]] = []
        self.refusals: list[Callable[[str, str], Exception | None]] = []
        self.watches: list[list[Json]] = []
        self.closed = Event()
        self.cut = False
        self.logs: dict[str, str] = {}
        self._version = 0

    def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        *,
        accept: str = "application/json",
        content: str = "application/json",
    ) -> Json:
        self.requests.append((method, path))
        for refuse in self.refusals:
            if error := refuse(method, path):
                raise error
        body = copy.deepcopy(body)
        if method == "POST":
            return self._create(path, body)
        if method == "GET" and path not in self.objects and path.rpartition("/")[2] in ("pods", "configmaps"):
            return self._list(path, query or {})
        if path not in self.objects:
            raise ApiError(404, f"{path} not found")
        if method == "PUT":
            if body["metadata"]["resourceVersion"] != self.objects[path]["metadata"]["resourceVersion"]:
                raise ApiError(409, "the object has been modified")
            self._put(path, body)
        elif method == "PATCH":
            assert content == MERGE
            self._put(path, _merged(self.objects[path], body))
        elif method == "DELETE":
            return self._delete(path, body or {})
        return copy.deepcopy(self.objects[path])

    @contextmanager
    def open(self, method: str, path: str, query: Mapping[str, Any] | None = None, *_: Any, **__: Any) -> Iterator[Any]:
        self.requests.append((method, path))
        if path.endswith("/log"):
            if path.split("/")[-2] not in self.logs:
                raise ApiError(404, "no log")
            yield _Stream([self.logs[path.split("/")[-2]].encode()])
        elif self.watches:
            text = b"".join(json.dumps(event).encode() + b"\n" for event in self.watches.pop(0))
            yield _Stream([text[: len(text) // 2] if self.cut else text])
        else:
            self.closed.wait(10)
            yield _Stream([])

    def names(self, kind: str) -> list[str]:
        return sorted(path.rpartition("/")[2] for path in self.objects if f"/{kind}/" in path)

    def set_status(self, path: str, status: Json, **spec: Any) -> None:
        """As the kubelet of the node does."""
        self._put(path, _merged(self.objects[path], {"status": status, "spec": {"nodeName": "node", **spec}}))

    def _create(self, path: str, body: Json) -> Json:
        own = f"{path}/{body['metadata']['name']}"
        if own in self.objects:
            raise ApiError(409, f"{own} already exists")
        namespace = path.split("/")[4]
        body["metadata"] = {
            "namespace": namespace,
            "creationTimestamp": "2026-03-01T11:59:00Z",
            **body["metadata"],
            "uid": f"uid-{self._version}",
        }
        self._put(own, body)
        return copy.deepcopy(self.objects[own])

    def _put(self, path: str, body: Json) -> None:
        self._version += 1
        self.objects[path] = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self._version)}}

    def _list(self, path: str, query: Mapping[str, Any]) -> Json:
        parts = [part for part in str(query.get("labelSelector", "")).split(",") if part]
        found = [
            copy.deepcopy(one)
            for at, one in sorted(self.objects.items())
            if at.startswith(f"{path}/") and _selected(one["metadata"].get("labels") or {}, parts)
        ]
        return {"metadata": {"resourceVersion": str(self._version)}, "items": found}

    def _delete(self, path: str, options: Json) -> Json:
        found = self.objects[path]
        if options.get("preconditions", {}).get("uid", found["metadata"]["uid"]) != found["metadata"]["uid"]:
            raise ApiError(409, "the UID in the precondition does not match")
        runs = found.get("spec", {}).get("nodeName") and found.get("status", {}).get("phase") == "Running"
        if runs and options.get("gracePeriodSeconds") != 0:
            change = {"metadata": {"deletionTimestamp": "2026-03-01T12:00:30Z", "deletionGracePeriodSeconds": 30}}
            self._put(path, _merged(found, change))
            return {}
        del self.objects[path]
        uid = found["metadata"]["uid"]
        for at, other in list(self.objects.items()):
            if any(owner["uid"] == uid for owner in other["metadata"].get("ownerReferences") or []):
                del self.objects[at]
        return {}


class _Stream:
    def __init__(self, blocks: Sequence[bytes]) -> None:
        self._blocks = blocks

    def stream(self, *_: Any, **__: Any) -> Iterator[bytes]:
        yield from self._blocks


def _selected(labels: Mapping[str, str], parts: Sequence[str]) -> bool:
    for part in parts:
        key, equals, value = part.lstrip("!").partition("=")
        if (key in labels and (not equals or labels[key] == value)) == part.startswith("!"):
            return False
    return True


def _merged(old: Any, change: Any) -> Any:
    """RFC 7396."""
    if not isinstance(change, dict):
        return change
    found = dict(old) if isinstance(old, dict) else {}
    for key, value in change.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = _merged(found.get(key), value)
    return found
