"""How the results of a pod's containers are collected.

`/output` is the file of the termination message. `/metric.json` may be larger than the API server accepts, so it is a file in
a volume, which a further container, the collector, prints to its own log when all others have ended. The collector is a
sidecar by our annotation, not a native one: versions of Kubernetes that do not know those would wait for its end before they
start the pod.
"""

from __future__ import annotations

import base64
import binascii
import json
import posixpath
from collections.abc import Iterable, Mapping
from typing import Any

from pipeline_core.taskset.document import SIDECARS, counting
from pipeline_core.taskset.results import MAX_METRICS, METRICS_FILE, OUTPUT_FILE

Json = dict[str, Any]

COLLECTOR, PREPARER, VOLUME = "pipeline-collector", "pipeline-collector-init", "pipeline-collected"
OURS = frozenset({COLLECTOR, PREPARER})
"""Names of the containers that this module adds; their logs are not shown to users."""

GRACE_SECONDS = 5
"""The least grace time of a pod with a collector, which prints the metrics in that time."""

_PLACE = "/collected"
_END = b"end"
_PREPARE = 'umask 0; for file in "$@"; do : >"$file" || exit 1; done'
_HAND_OVER = f"""\
hand_over() {{
    for file in "$@"; do
        if [ -s "$file" ]; then head -c {MAX_METRICS + 1} "$file" | base64; break; fi
    done
    echo {_END.decode()}
    exit 0
}}
trap 'hand_over "$@"' TERM
while :; do sleep 3600 & wait $!; done
"""
_MOST_LINES = 2 * MAX_METRICS // 76
_RESOURCES = {"cpu": "100m", "memory": "32Mi"}


def equip(template: Json, image: str) -> None:
    """Change a pod template so that the results of the containers that count can be collected.

    `image` is that of the collector, and must have a shell; without one no metrics are collected. A container that has its own
    termination message path, or a volume at the place of a result, keeps it.
    """
    spec = template["spec"]
    counted = counting(template)
    containers = [one for one in spec["containers"] if one["name"] in counted]
    for container in containers:
        if not _is_taken(container, OUTPUT_FILE):
            container.setdefault("terminationMessagePath", OUTPUT_FILE)
    writers = [one for one in containers if not _is_taken(one, METRICS_FILE)]
    if image and writers:
        _add_collector(template, image, writers)


def leaves_output(pod: Mapping[str, Any], container: str) -> bool:
    """Whether the termination message of a container is its output."""
    specs = (one for one in pod["spec"]["containers"] if one["name"] == container)
    return any(one.get("terminationMessagePath") == OUTPUT_FILE for one in specs)


def printed_metrics(lines: Iterable[bytes]) -> bytes | None:
    """The metrics in the log of a collector, whose lines begin with their times; None when they are not complete."""
    texts: list[bytes] = []
    for number, line in enumerate(lines):
        text = line.partition(b" ")[2]
        if text == _END:
            try:
                return base64.b64decode(b"".join(texts), validate=True)
            except binascii.Error:
                return None
        if number > _MOST_LINES:
            return None
        texts.append(text)
    return None


def _is_taken(container: Mapping[str, Any], path: str) -> bool:
    mounts = (posixpath.normpath(f"/{one['mountPath'].lstrip('/')}") for one in container.get("volumeMounts") or [])
    return any(f"{mount}/".startswith(f"{path}/") for mount in mounts)


def _add_collector(template: Json, image: str, writers: list[Json]) -> None:
    spec = template["spec"]
    counted = counting(template)
    aside = [one["name"] for one in spec["containers"] if one["name"] not in counted]
    metadata = template.setdefault("metadata", {})
    metadata["annotations"] = {**(metadata.get("annotations") or {}), SIDECARS: json.dumps([*aside, COLLECTOR])}
    for container in writers:
        mount = {"name": VOLUME, "mountPath": METRICS_FILE, "subPath": container["name"]}
        container["volumeMounts"] = [*(container.get("volumeMounts") or []), mount]
    grace = spec.get("terminationGracePeriodSeconds", GRACE_SECONDS)
    spec["terminationGracePeriodSeconds"] = max(grace, GRACE_SECONDS)
    files = [f"{_PLACE}/{container['name']}" for container in writers]
    spec["volumes"] = [*(spec.get("volumes") or []), {"name": VOLUME, "emptyDir": {}}]
    spec["initContainers"] = [_container(PREPARER, image, _PREPARE, files), *(spec.get("initContainers") or [])]
    spec["containers"] = [*spec["containers"], _container(COLLECTOR, image, _HAND_OVER, files)]


def _container(name: str, image: str, script: str, files: list[str]) -> Json:
    return {
        "name": name,
        "image": image,
        "command": ["sh", "-c", script, name, *files],
        # Equal ones, so that the pod stays in the class of service that it is in.
        "resources": {"requests": _RESOURCES, "limits": _RESOURCES},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": VOLUME, "mountPath": _PLACE}],
    }
