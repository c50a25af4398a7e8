"""docker/kustomize/trial on a node of Kubernetes 1.20 without DNS, Services and storage classes.

The overlay leaves the manifests as they are, but for this. Names of services stand in /etc/hosts of pods. The API server is
reached by a forwarded port of the machine, under a name that its certificate has. Volumes are directories. PostgreSQL and
Valkey run from an image of Debian's packages. The service's processes ask for less CPU, since they ask for two cores in all.
`policy/v1` and `autoscaling/v2` become the versions that 1.20 has of them. No network policy is in force.
"""

from __future__ import annotations

import base64
import ipaddress
import itertools
import json
import os
import shutil
import socket
import socketserver
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import requests
import yaml

from pipeline_core.clusters.kubernetes.api import KubernetesApi, connect
from tests.manifests import KUSTOMIZE, Manifest, filled_in, rendered
from tests.waiting import HANG_SECONDS, wait_for

SERVICE, JOBS = "pipeline", "pipeline-jobs"
PASSWORD = "the-admins-password"
API_SERVER = "kubernetes.default.svc"
SERVERS = {"pipeline-postgres": 999, "pipeline-redis": 999}
CLAIMS = {"data-pipeline-postgres-0": 999, "data-pipeline-redis-0": 999, "pipeline-archive": 10001}
"""The claims of volumes, and the user that writes to each."""
WITH_TOKEN = "app.kubernetes.io/component in (api, stages, housekeeping, flows, watcher)"
OF_SERVICE = "app.kubernetes.io/name=pipeline"
COMPONENT = "app.kubernetes.io/component"
"""The label of what a pod of the service runs; the servers have none."""


class NobodyReady(Exception):
    """The Service of the API has no pod to send a request to."""


@dataclass
class Trial:
    """The trial in a cluster, and a client that is its admin."""

    directory: Path
    kubeconfig: str
    api: KubernetesApi
    names: dict[str, str] = field(default_factory=dict)
    port: int = 0
    turns: Iterator[int] = field(default_factory=itertools.count)

    def kubectl(self, *words: str, given: str | None = None) -> str:
        """What kubectl prints; it must succeed."""
        done = subprocess.run(
            ["kubectl", *words],
            input=given,
            env={**os.environ, "KUBECONFIG": self.kubeconfig},
            capture_output=True,
            text=True,
            timeout=HANG_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"kubectl {' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout

    def manifests(self) -> list[Manifest]:
        """The overlay, rendered."""
        overlay = self.directory / "overlay"
        overlay.mkdir(exist_ok=True)
        (overlay / "kustomization.yaml").write_text(yaml.safe_dump(self._kustomization()))
        return [*rendered(overlay), *(self._volume(claim, user) for claim, user in CLAIMS.items())]

    def apply(self, *but: str) -> None:
        """Apply the overlay, without these kinds."""
        chosen = [one for one in self.manifests() if one["kind"] not in but]
        self.kubectl("apply", "-f", "-", given=yaml.safe_dump_all(chosen))

    def pods(self, component: str = "", namespace: str = SERVICE) -> list[dict[str, Any]]:
        """The pods of a component that are not being deleted; of all if none is named."""
        found = self.api.request("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]
        return [
            pod
            for pod in found
            if "deletionTimestamp" not in pod["metadata"]
            and (not component or pod["metadata"].get("labels", {}).get(COMPONENT) == component)
        ]

    def wait_available(self) -> None:
        """Until every deployment has all of its pods."""

        def state() -> dict[str, Any]:
            found = self.api.request("GET", f"/apis/apps/v1/namespaces/{SERVICE}/deployments")["items"]
            return {one["metadata"]["name"]: one["status"] for one in found}

        def available() -> bool:
            found = self.api.request("GET", f"/apis/apps/v1/namespaces/{SERVICE}/deployments")["items"]
            return all(
                one["status"].get("observedGeneration") == one["metadata"]["generation"]
                and one["spec"]["replicas"]
                == one["status"].get("availableReplicas")
                == one["status"].get("updatedReplicas")
                == one["status"].get("replicas")
                for one in found
            )

        wait_for(available, "all deployments to be available", progress=state, quiet=120)

    def url(self) -> str:
        """An address of the API, as the Service would choose one: that of a pod that is ready. Raises NobodyReady."""
        found = self.api.request("GET", f"/api/v1/namespaces/{SERVICE}/endpoints/pipeline-api")
        ready = [address["ip"] for subset in found.get("subsets") or () for address in subset.get("addresses") or ()]
        if not ready:
            raise NobodyReady("no pod of the API is ready")
        return f"http://{ready[next(self.turns) % len(ready)]}:8080"

    def ask(self, method: str, path: str, body: Any = None) -> requests.Response:
        return requests.request(method, self.url() + path, json=body, headers={"token": PASSWORD}, timeout=30)

    def get(self, path: str) -> Any:
        response = self.ask("GET", path)
        assert response.status_code == 200, response.text
        return response.json()["payload"]

    def _kustomization(self) -> dict[str, Any]:
        aliases = [{"ip": ip, "hostnames": [name]} for name, ip in self.names.items()]
        reach = [{"name": "KUBERNETES_SERVICE_HOST", "value": API_SERVER}]
        reach += [{"name": "KUBERNETES_SERVICE_PORT", "value": str(self.port)}]
        containers = "/spec/template/spec/containers/0"
        little = {"op": "replace", "path": f"{containers}/resources/requests/cpu", "value": "10m"}
        patches: list[tuple[dict[str, str], list[dict[str, Any]]]] = [
            ({"kind": "PodDisruptionBudget"}, [{"op": "replace", "path": "/apiVersion", "value": "policy/v1beta1"}]),
            (
                {"kind": "HorizontalPodAutoscaler"},
                [{"op": "replace", "path": "/apiVersion", "value": "autoscaling/v2beta2"}],
            ),
            (
                {"kind": "Deployment", "labelSelector": OF_SERVICE},
                [little, {"op": "add", "path": "/spec/template/spec/hostAliases", "value": aliases}],
            ),
            (
                {"kind": "Deployment", "labelSelector": WITH_TOKEN},
                [{"op": "add", "path": f"{containers}/env/-", "value": one} for one in reach],
            ),
        ]
        return {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": ["../kustomize/trial"],
            "images": [
                {"name": name, "newName": "localhost/pipeline-servers", "newTag": "1"}
                for name in ("postgres", "valkey/valkey")
            ],
            "patches": [{"target": target, "patch": json.dumps(patch)} for target, patch in patches],
        }

    def _volume(self, claim: str, user: int) -> Manifest:
        path = self.directory / "volumes" / claim
        path.mkdir(parents=True, exist_ok=True)
        os.chown(path, user, user)
        return {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": f"test-{claim}"},
            "spec": {
                "capacity": {"storage": "20Gi"},
                "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain",
                "claimRef": {"namespace": SERVICE, "name": claim},
                "hostPath": {"path": str(path)},
            },
        }


@contextmanager
def a_trial_in(kubeconfig: str, directory: Path) -> Iterator[Trial]:
    """The trial, started. Nobody deletes it here: the cluster ends with the tests."""
    shutil.copytree(KUSTOMIZE, directory / "kustomize", ignore=shutil.ignore_patterns("secrets.env"))
    service = directory / "kustomize" / "trial" / "service"
    values = {"PIPELINE_SECRET_KEY": base64.urlsafe_b64encode(b"k" * 32).decode(), "PIPELINE_ADMIN_PASSWORD": PASSWORD}
    filled_in(service / "secrets.env.example", service, values)
    api = connect(kubeconfig, "")
    trial = Trial(directory, kubeconfig, api)
    trial.apply("Deployment", "HorizontalPodAutoscaler")
    addresses = wait_for(lambda: _addresses(trial), "the servers", progress=lambda: _phases(trial), quiet=120)
    machine = str(ipaddress.ip_network(f"{addresses['pipeline-postgres']}/24", strict=False)[1])
    with forwarded(machine, kubeconfig) as trial.port:
        trial.names = {**addresses, API_SERVER: machine}
        trial.apply()
        yield trial


def _addresses(trial: Trial) -> dict[str, str] | None:
    """The address of each server, when all are ready."""
    found = {pod["metadata"]["labels"]["app.kubernetes.io/name"]: pod["status"] for pod in trial.pods()}
    if found.keys() >= SERVERS.keys() and all(
        status["phase"] == "Running" and status["containerStatuses"][0]["ready"] for status in found.values()
    ):
        return {name: found[name]["podIP"] for name in SERVERS}
    return None


def _phases(trial: Trial) -> Any:
    return {pod["metadata"]["name"]: pod["status"] for pod in trial.pods()}


class _Forwarder(socketserver.ThreadingTCPServer):
    daemon_threads = True
    target: tuple[str, int]


class _Connection(socketserver.BaseRequestHandler):
    server: _Forwarder

    def handle(self) -> None:
        with socket.create_connection(self.server.target) as behind:
            back = threading.Thread(target=_copy, args=(behind, self.request), daemon=True)
            back.start()
            _copy(self.request, behind)
            back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while block := source.recv(65536):
            target.sendall(block)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@contextmanager
def forwarded(address: str, kubeconfig: str) -> Iterator[int]:
    """A port of this address that leads to the API server, which listens on the loopback address alone."""
    with _Forwarder((address, 0), _Connection) as server:
        (cluster,) = yaml.safe_load(Path(kubeconfig).read_text())["clusters"]
        parts = urlsplit(cluster["cluster"]["server"])
        server.target = (str(parts.hostname), int(parts.port or 443))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()
