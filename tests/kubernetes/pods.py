"""What a watch has seen of the pods of a namespace, and how containerd says that their containers ended."""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import kubernetes.client
import kubernetes.config
import kubernetes.watch
import urllib3.exceptions

from pipeline_core.clusters.kubernetes.objects import JOB


@dataclass
class Watched:
    """What was seen of pods until now."""

    uids: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """The UIDs of each job's pods, by the job's ID."""
    gone: set[str] = field(default_factory=set)
    """The names of those that are deleted."""
    containers: dict[str, str] = field(default_factory=dict)
    """The ID of the container that each pod had last, by the pod's name."""


@contextmanager
def watched(kubeconfig: str, namespace: str) -> Iterator[Watched]:
    """Watch the pods of a namespace, those that are there first, until the block ends."""
    seen, watch, over = Watched(), kubernetes.watch.Watch(), threading.Event()
    core = kubernetes.client.CoreV1Api(kubernetes.config.new_client_from_config(kubeconfig))

    def look(event: Any) -> None:
        pod = event["raw_object"]
        name = pod["metadata"]["name"]
        if job_id := pod["metadata"].get("labels", {}).get(JOB):
            seen.uids[job_id].add(pod["metadata"]["uid"])
        if event["type"] == "DELETED":
            seen.gone.add(name)
        for container in pod["status"].get("containerStatuses") or ():
            if container_id := container.get("containerID"):
                seen.containers[name] = container_id.removeprefix("containerd://")

    def run() -> None:
        try:
            for event in watch.stream(core.list_namespaced_pod, namespace):
                look(event)
        except urllib3.exceptions.ProtocolError:
            if not over.is_set():
                raise

    threading.Thread(target=run, daemon=True).start()
    yield seen
    # The request ends with the next change, or with the API server.
    over.set()
    watch.stop()


def exit_codes(events: Path) -> dict[str, int]:
    """The exit code of each container that has ended, by its ID, from the output of `ctr events`.

    Not from the statuses of pods: the API server may delete a pod before its node has written there how it ended.
    """
    codes = {}
    for line in events.read_text().splitlines():
        _, topic, text = line.partition(" /tasks/exit ")
        if topic and (event := json.loads(text))["id"] == event["container_id"]:
            codes[event["container_id"]] = event.get("exit_status", 0)
    return codes
