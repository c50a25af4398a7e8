"""The same processes run wherever the service runs: embedded, by Compose, and in Kubernetes."""

from __future__ import annotations

from pathlib import Path

import yaml

from pipeline_up.plan import Plan
from tests.manifests import KUSTOMIZE, ROOT, WorkerCommand, documents, of_kind, pod_of, worker_command
from workers.names import queues

DEPLOYMENTS = {
    deployment["metadata"]["name"].removeprefix("pipeline-"): pod_of(deployment)["containers"][0]
    for deployment in of_kind(documents(*(KUSTOMIZE / "base").glob("*.yaml")), "Deployment")
}
COMPOSE = {
    name: service
    for name, service in yaml.safe_load((ROOT / "docker/compose.yaml").read_text())["services"].items()
    if "build" in service
}
EMBEDDED = Plan(
    environment={}, data_dir=Path("/data"), listener=9, api_ready=lambda: True, stage_workers=1, hook_workers=1
).services()

WORKERS: dict[str, set[WorkerCommand]] = {
    "embedded": {worker for service in EMBEDDED if (worker := worker_command(service.argv))},
    "compose": {worker for service in COMPOSE.values() if (worker := worker_command(service["command"]))},
    "kubernetes": {worker for container in DEPLOYMENTS.values() if (worker := worker_command(container["command"]))},
}


def test_every_queue_is_served_once_wherever_the_service_runs() -> None:
    for where, workers in WORKERS.items():
        assert sorted(queue for worker in workers for queue in worker.queues) == sorted(queues()), where


def test_workers_are_told_the_same_wherever_they_run() -> None:
    assert WORKERS["embedded"] == WORKERS["compose"] == WORKERS["kubernetes"]


def test_compose_and_kubernetes_run_the_same_processes() -> None:
    once_before_the_others = {"migrate"}
    assert COMPOSE.keys() - once_before_the_others == DEPLOYMENTS.keys()
    for name in ("api", "beat", "watcher"):
        assert COMPOSE[name]["command"] == DEPLOYMENTS[name]["command"], name


def test_the_api_serves_as_many_requests_at_a_time_wherever_it_runs() -> None:
    (embedded,) = [service.argv for service in EMBEDDED if service.name == "api"]
    sizes = [word for word in embedded if word.startswith(("--workers", "--threads", "--worker-class"))]
    assert len(sizes) == 3
    assert set(sizes) <= set(DEPLOYMENTS["api"]["command"])


def test_flower_is_told_the_same_by_compose_and_in_kubernetes() -> None:
    *_, script = DEPLOYMENTS["flower"]["command"]
    assert [word for word in COMPOSE["flower"]["command"] if word not in script] == []
