"""The same processes run wherever the service runs: embedded, by Compose, and in Kubernetes."""

from __future__ import annotations

from pathlib import Path

import yaml

from pipeline_core.settings import Settings
from pipeline_up.plan import GUNICORN_GRACE_SECONDS, ProcessPlan
from tests.manifests import KUSTOMIZE, ROOT, documents, of_kind, pod_of
from workers import processes
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
EMBEDDED = {
    service.name: list(service.argv)
    for service in ProcessPlan(
        environment={},
        data_dir=Path("/data"),
        listener=9,
        api_ready=lambda: True,
        stage_workers=1,
        hook_workers=1,
        split=True,
    ).services()
}
COMMANDS = {
    "api": ["pipeline", "api", "--bind=0.0.0.0:8080"],
    **{kind: ["pipeline", "worker", kind] for kind in processes.WORKERS},
    "beat": ["pipeline", "beat"],
    "watcher": ["pipeline", "watch"],
}
"""By name, what starts each process where it runs by itself."""


def test_every_queue_is_served_by_one_kind_of_worker() -> None:
    served = [queue for kind in processes.WORKERS.values() for queue in kind.queues]
    assert sorted(served) == sorted(queues())


def test_compose_and_kubernetes_start_every_process_by_its_command() -> None:
    for where in (COMPOSE, DEPLOYMENTS):
        assert {name: where[name]["command"] for name in COMMANDS} == COMMANDS


def test_compose_and_kubernetes_run_the_same_processes() -> None:
    once_before_the_others = {"migrate"}
    assert COMPOSE.keys() - once_before_the_others == DEPLOYMENTS.keys() == COMMANDS.keys() | {"flower"}


def test_pipeline_up_starts_the_same_commands() -> None:
    limits = {"log_followers": Settings().log_followers, "event_waiters": Settings().event_waiters}
    assert {
        "api": processes.api("fd://9", **limits, grace_seconds=GUNICORN_GRACE_SECONDS),
        "stages1": processes.worker("stages", name="stages1"),
        "hooks1": processes.worker("hooks", name="hooks1"),
        "flows": processes.worker("flows"),
        "housekeeping": processes.worker("housekeeping"),
        "shadows": processes.worker("shadows"),
        "beat": processes.beat("/data/run/beat"),
        "watcher": processes.watcher(),
    } == EMBEDDED


def test_flower_is_told_the_same_wherever_it_runs() -> None:
    *_, script = DEPLOYMENTS["flower"]["command"]
    wanted = processes.flower("0.0.0.0", 5555)[2:]
    assert COMPOSE["flower"]["command"] == wanted
    assert [word for word in wanted if word not in script] == []
