"""Jobs for tests."""

from __future__ import annotations

from typing import Any


def taskset(script: str = "true", *, replicas: int = 1, name: str = "worker", **role: Any) -> dict[str, Any]:
    """A TaskSet of one role whose container runs this shell script."""
    container = {"name": "main", "image": "busybox", "command": ["sh", "-c", script]}
    return {
        "apiVersion": "octopus.openi.pcl.cn/v1alpha1",
        "kind": "TaskSet",
        "metadata": {},
        "spec": {
            "roles": [{"name": name, "replicas": replicas, "template": {"spec": {"containers": [container]}}, **role}]
        },
    }
