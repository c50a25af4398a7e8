"""The whole service on a real API server, while its processes are killed and while the API server is away."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from pipeline_core.clusters.kubernetes.api import KubernetesApi
from tests.installation import Installation
from tests.kubernetes.proxy import proxied
from tests.kubernetes.world import a_service, playing, taskset, wait_ended
from tests.waiting import wait_for

JOBS = 100
KILLED = ("watcher", "stages1", "stages2", "housekeeping")
BLOWS = 20
"""So many processes are killed: a storm is over some time, and what it left behind ends then."""
PAUSE = (0.5, 2.5)
TOGETHER = 20


@pytest.fixture
def service(
    tmp_path: Path, namespace: str, kubeconfig: str, postgres_url: str, migrated_database: str, redis_url: str
) -> Iterator[Installation]:
    with a_service(tmp_path / "service", namespace, kubeconfig, postgres_url, migrated_database, redis_url) as made:
        yield made


@pytest.mark.slow
def test_all_jobs_end_correctly_although_workers_and_watchers_are_killed_repeatedly(
    service: Installation, api: KubernetesApi, namespace: str
) -> None:
    over = threading.Event()
    seed = random.randrange(2**32)
    print(f"\nseed {seed}")  # noqa: T201 - pytest shows it when the test fails
    blows: list[str] = []

    def strike() -> None:
        chance = random.Random(seed)
        while len(blows) < BLOWS and not over.wait(chance.uniform(*PAUSE)):
            name = chance.choice(KILLED)
            if process := service.processes.get(name):
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                    blows.append(name)

    with playing(api, namespace) as nodes:
        storm = threading.Thread(target=strike, daemon=True)
        storm.start()
        try:
            bad = [service.submit(taskset("true", "exit 3")) for _ in range(JOBS // 5)]
            good = [service.submit(taskset("true", "true")) for _ in range(JOBS - len(bad))]
            ended = wait_ended(service, [*good, *bad])
        finally:
            over.set()
            storm.join()
    assert "watcher" in blows
    assert {ended[one]["state"] for one in good} == {"succeeded"}, ended
    assert {(ended[one]["state"], ended[one]["exitCode"]) for one in bad} == {("failed", 3)}
    assert {tuple(service.events(one)) for one in good} == {("waiting", "running", "succeeded")}
    assert {tuple(service.events(one)) for one in bad} == {("waiting", "running", "failed")}
    made = {name: uids for name, uids in nodes.uids.items() if len(uids) > 1}
    assert not made, "each pod was made once"
    assert len(nodes.uids) == 2 * JOBS


def test_the_outcomes_of_jobs_that_end_together_are_all_counted(
    service: Installation, api: KubernetesApi, namespace: str
) -> None:
    with playing(api, namespace) as nodes:
        nodes.frozen = True
        jobs = [service.submit(taskset("true", "true")) for _ in range(TOGETHER)]
        wait_for(lambda: len(nodes.uids) == 2 * TOGETHER, "all pods", progress=lambda: len(nodes.uids))
        nodes.frozen = False
        wait_ended(service, jobs)
    counted = {job_id: service.get(f"/v1/job/detail/{job_id}")["platformSpecificInfo"] for job_id in jobs}
    assert {job_id: found["unitResults"] for job_id, found in counted.items()} == {
        job_id: {"task_finished": 2} for job_id in jobs
    }
    assert {found["configMapName"] for found in counted.values()} == {f"c-{job_id}-0" for job_id in jobs}
    assert all(found["configMapUID"] for found in counted.values())


def test_an_unavailable_cluster_makes_jobs_wait(
    tmp_path: Path,
    namespace: str,
    kubeconfig: str,
    api: KubernetesApi,
    postgres_url: str,
    migrated_database: str,
    redis_url: str,
) -> None:
    with (
        proxied(kubeconfig, tmp_path) as proxy,
        a_service(
            tmp_path / "service", namespace, proxy.kubeconfig, postgres_url, migrated_database, redis_url
        ) as service,
        playing(api, namespace) as nodes,
    ):
        runs = service.submit(taskset("sleep"))
        service.wait_state(runs, "running")
        ends = service.submit(taskset("true"))
        nodes.frozen = True
        wait_for(lambda: any(name.startswith(ends) for name in nodes.uids), "its pod")
        proxy.cut_off()
        waits = service.submit(taskset("true"))
        wait_for(lambda: "cannot be used" in service.job(waits)["reason"], "the launch to be postponed")
        # Meanwhile its pod ends, and nobody can hear of it.
        nodes.frozen = False
        wait_for(lambda: len(proxy.asked) > 20, "the service to have asked for a while")
        assert [service.job(one)["state"] for one in (runs, waits)] == ["running", "waiting"]
        assert service.job(ends)["state"] in ("waiting", "running")
        stopped = service.submit(taskset("true"))
        service.put(f"/v1/job/stop/{runs}")
        service.put(f"/v1/job/stop/{stopped}")
        proxy.come_back()
        ended = wait_ended(service, [ends, waits, runs, stopped])
        assert [ended[one]["state"] for one in (ends, waits, runs, stopped)] == [
            "succeeded",
            "succeeded",
            "stopped",
            "stopped",
        ]


def test_refused_credentials_make_jobs_wait_until_there_are_others(
    tmp_path: Path,
    namespace: str,
    kubeconfig: str,
    api: KubernetesApi,
    postgres_url: str,
    migrated_database: str,
    redis_url: str,
) -> None:
    document = yaml.safe_load(Path(kubeconfig).read_text())
    for user in document["users"]:
        user["user"] = {"token": "expired"}
    path = Path(kubeconfig).with_name(f"{namespace}.kubeconfig")
    path.write_text(yaml.safe_dump(document))
    with (
        a_service(tmp_path / "service", namespace, str(path), postgres_url, migrated_database, redis_url) as service,
        playing(api, namespace),
    ):

        def problems() -> str:
            return " ".join(service.get("/v1/status")["problems"])

        def metrics() -> str:
            return service.ask("GET", "/metrics").text

        refused = "refuses the service's credentials"
        job_id = service.submit(taskset("true"))
        wait_for(lambda: refused in service.job(job_id)["reason"], "the launch to be postponed")
        wait_for(
            lambda: "cannot be used since" in problems() and refused in problems(), "the problem", progress=problems
        )
        assert refused in service.ask("GET", "/readyz").json()["payload"]["cluster"]
        wait_for(lambda: 'pipeline_cluster_up{cluster="local"} 0.0' in metrics(), "the metric")
        wait_for(lambda: 'pipeline_cluster_errors_total{error="401"}' in metrics(), "the errors")
        assert service.job(job_id)["state"] == "waiting"
        path.write_text(Path(kubeconfig).read_text())
        assert wait_ended(service, [job_id])[job_id]["state"] == "succeeded"
        wait_for(lambda: not problems(), "no problem any more", progress=problems)
        assert "Traceback" not in service.log("watcher")
    path.unlink()
