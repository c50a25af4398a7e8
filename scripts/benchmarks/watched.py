"""Jobs that are in a cluster of many pods, and watchers of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg2

from scripts.benchmarks.fake_cluster import NAMESPACE, ROLE
from scripts.benchmarks.stand import JOB, Stand, wait_for


@dataclass
class Watched:
    """A cluster whose pods all wait; `pods` are how many."""

    stand: Stand
    process: subprocess.Popen[str]
    url: str
    pods: int

    def wave(self, phase: str, rate: float) -> None:
        """Let all pods change, so many a second."""
        assert self.process.stdin
        self.process.stdin.write(f"{phase} {rate}\n")
        self.process.stdin.flush()

    def wait_watched(self) -> None:
        """Wait until somebody watches."""
        assert self.process.stdout
        assert self.process.stdout.readline() == "watched\n"

    def watcher(self, directory: Path) -> subprocess.Popen[bytes]:
        """The service's watcher of this cluster. The block ends it, and with that its lease."""
        kubeconfig = directory / f"{self.process.pid}.kubeconfig"
        kubeconfig.write_text(json.dumps(_kubeconfig(self.url)))
        service = self.stand.like("watcher", "watcher", {})
        cluster = {
            "PIPELINE_LOG_LEVEL": "debug",
            "PIPELINE_CLUSTER_DRIVER": "kubernetes",
            "PIPELINE_KUBECONFIG": str(kubeconfig),
        }
        return _Ended(
            service.argv,
            env={**(service.env or {}), **cluster},
            stderr=subprocess.DEVNULL,
        )

    def bare_watcher(self) -> subprocess.Popen[bytes]:
        """The one that it is compared with."""
        url = f"{self.url}/api/v1/namespaces/{NAMESPACE}/pods?watch=true"
        argv = [sys.executable, "-m", "scripts.benchmarks.baselines.bare_watch", url]
        return _Ended(argv, env=self.stand.environment)


def cpu_seconds(process: subprocess.Popen[bytes]) -> float:
    """The CPU time that a process has taken so far."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


class _Ended(subprocess.Popen[bytes]):
    """A process that is ended with its block."""

    def __exit__(self, *_: object) -> None:
        self.terminate()
        self.wait()


@contextmanager
def watched(stand: Stand, jobs: int, replicas: int) -> Iterator[Watched]:
    """So many jobs of so many replicas each, all in the cluster and waiting."""
    job_ids = [launched(replicas) for _ in range(jobs)]
    argv = [sys.executable, "-m", "scripts.benchmarks.fake_cluster", "0", str(jobs), str(replicas)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdin
            assert process.stdout
            process.stdin.write("".join(f"{job_id}\n" for job_id in job_ids))
            process.stdin.flush()
            yield Watched(stand, process, f"http://127.0.0.1:{process.stdout.readline().strip()}", jobs * replicas)
        finally:
            process.kill()


def launched(replicas: int) -> str:
    """A job whose replicas wait in the cluster."""
    from api.schemas.jobs import Submit
    from pipeline_core.auth.actor import SYSTEM
    from pipeline_core.clusters.base import Observation, ReplicaReport
    from pipeline_core.jobs import claims, cursor
    from pipeline_core.jobs.submission import submit
    from pipeline_core.stages.names import Stage
    from pipeline_core.stages.outcomes import ClaimedStep, Launched
    from pipeline_core.states import ReplicaState

    body = json.loads(json.dumps(JOB))
    body["job"]["spec"]["roles"][0]["replicas"] = replicas
    job_id = submit(Submit().read(body), SYSTEM)
    claim = claims.claim(job_id, 0, Stage.LAUNCH, "bench")
    if not isinstance(claim, ClaimedStep):
        raise TypeError(f"{job_id} cannot be launched: {claim}")
    waiting = tuple(ReplicaReport(ROLE, index, ReplicaState.WAITING) for index in range(replicas))
    cursor.finish(claim, Launched(observation=Observation(job_id, 0, waiting)))
    return job_id


def wait_recorded(stand: Stand, phase: str, count: int) -> float:
    """Wait until so many replicas are written down to have reached it; the time at which they were."""
    with closing(psycopg2.connect(stand.database_url)) as connection:
        connection.autocommit = True
        cursor = connection.cursor()

        def recorded() -> bool:
            cursor.execute("SELECT count(*) FROM replicas WHERE state = %s", (phase.lower(),))
            return cursor.fetchone() == (count,)

        return wait_for(recorded, f"{count} replicas to be {phase}", every=0.05)


def _kubeconfig(server: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "bench",
        "clusters": [{"name": "bench", "cluster": {"server": server}}],
        "users": [{"name": "bench", "user": {}}],
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
    }
