"""Where a row is measured: servers that keep their data safe, the service's own processes, and those of the baselines."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sqlalchemy.engine import make_url

from api.schemas.features import FeatureBody
from pipeline_cli.up import server_service
from pipeline_core.auth.actor import SYSTEM
from pipeline_core.auth.privileges import Privilege
from pipeline_core.auth.tokens import TokenDefinition, create
from pipeline_core.common import log as logs
from pipeline_core.database import transaction
from pipeline_core.database.migrate import upgrade
from pipeline_core.features import registry
from pipeline_core.runtime import restart
from pipeline_core.settings import settings
from pipeline_up.data_directory import DataDirectory
from pipeline_up.embedded import EmbeddedPostgres, EmbeddedRedis
from pipeline_up.environment import child_environment, kept_secret_key
from pipeline_up.listener import Listener
from pipeline_up.plan import ProcessPlan
from pipeline_up.service import Service, ready_at_once
from pipeline_up.supervisor import Change, ServiceSupervisor
from workers.processes import WORKERS, concurrency_of, python, stage_workers

READY_SECONDS = 180.0
PATIENCE_SECONDS = 300.0
BARE_DATABASE, HUEY_DATABASE = 1, 2

JOB = {
    "userID": "bench",
    "jobName": "bench",
    "jobKind": "TaskSet",
    "header": {"type": "bench"},
    "job": {
        "apiVersion": "octopus.openi.pcl.cn/v1alpha1",
        "kind": "TaskSet",
        "metadata": {},
        "spec": {
            "roles": [
                {
                    "name": "worker",
                    "replicas": 1,
                    "template": {"spec": {"containers": [{"name": "main", "image": "busybox", "command": ["true"]}]}},
                }
            ]
        },
    },
}
"""A job that needs no translation and that no plugin matches, for there is none."""

TRANSLATED = {**JOB, "jobKind": "Bench", "job": {"kind": "Bench", "taskset": JOB["job"]}}
"""A job that has to be translated, by a plugin of `plugins`."""


@dataclass
class Stand:
    """The service as `pipeline up` runs it, on the null cluster.

    This process has the service's settings, and `environment` is what the baselines' processes get.
    """

    supervisor: ServiceSupervisor
    plan: ProcessPlan
    url: str
    environment: dict[str, str]

    @property
    def database_url(self) -> str:
        return self.environment["PIPELINE_DATABASE_URL"]

    def start_service(self, *names: str) -> None:
        """Start these processes of the service, all if none is named, and wait until they are ready."""
        self.start(*(service for service in self.plan.services() if not names or service.name in names))

    def start(self, *services: Service) -> None:
        """Start other processes and wait until they are ready."""
        self.supervisor.start(*services)
        self.supervisor.wait_ready(READY_SECONDS)

    def like(self, name: str, other: str, words: Mapping[str, str]) -> Service:
        """A process with the command line of one of the service's, but for the words that are to be others.

        Raises ValueError for words that it does not have.
        """
        (service,) = (service for service in self.plan.services() if service.name == name)
        if unknown := words.keys() - set(service.argv):
            raise ValueError(f"the command of {name} has no {', '.join(sorted(unknown))}")
        return replace(service, name=other, argv=[words.get(word, word) for word in service.argv])

    @property
    def stage_workers(self) -> list[str]:
        """The names of the stage workers, each of one process."""
        return [f"stages{number}" for number in range(1, self.plan.stage_workers + 1)]

    def bare_worker(self, *, forked: bool = True) -> Service:
        """A worker for `baselines.bare_celery` with as many forked processes, or in the same pool, and Celery's own log level."""
        pool = ["--pool=prefork", "-c", str(self.plan.stage_workers)]
        threads = [f"--pool={WORKERS['stages'].pool}", "-c", str(concurrency_of("stages"))]
        argv = python(
            "celery", "-A", "scripts.benchmarks.baselines.bare_celery", "worker", "-n", "bare@%h", "-Q", "bare",
            *(pool if forked else threads), "--without-gossip", "--without-mingle", "--loglevel=WARNING",
        )  # fmt: skip
        return replace(self.plan.services()[0], name="bare-celery", argv=argv, ready=ready_at_once, pass_fds=())


@contextmanager
def standing(*, split: bool = True) -> Iterator[Stand]:
    """A stand of its own, in a directory that is gone afterwards. Nothing of it runs yet but its servers.

    `split`: what the background worker does is done by a process of its own each, so that a row can start those that it needs.
    """
    with (
        tempfile.TemporaryDirectory(prefix="pipeline-bench-") as directory,
        DataDirectory(Path(directory) / "data") as data,
        closing(Listener("127.0.0.1", 0)) as listener,
    ):
        servers = (EmbeddedPostgres(data.path / "postgres"), EmbeddedRedis(data.path / "redis"))
        postgres, redis = servers
        supervisor = ServiceSupervisor(data, _report)
        for server in servers:
            server.prepare()
        try:
            with supervisor.listening():
                supervisor.start(*map(server_service, servers))
                supervisor.wait_ready(READY_SECONDS)
                environment = child_environment(
                    {name: value for name, value in os.environ.items() if not name.startswith("PIPELINE_")}
                    | {
                        "PIPELINE_CLUSTER_DRIVER": "null",
                        "BENCH_BROKER_URL": redis_database(redis.url, BARE_DATABASE),
                        "BENCH_HUEY_URL": redis_database(redis.url, HUEY_DATABASE),
                    },
                    database_url=postgres.url,
                    redis_url=redis.url,
                    secret_key=kept_secret_key(data.path),
                    data_dir=data.path,
                    loopback=True,
                )
                os.environ.update(environment)
                restart()
                # Standard output is for the results.
                logs.configure(replace(settings(), log_level="warning"))
                upgrade(postgres.url)
                plan = ProcessPlan(
                    environment=environment,
                    data_dir=data.path,
                    listener=listener.fileno,
                    api_ready=lambda: listener.answers("/readyz"),
                    stage_workers=stage_workers(),
                    hook_workers=1,
                    split=split,
                )
                yield Stand(supervisor, plan, listener.url, environment)
        finally:
            for server in servers:
                server.clean()


def a_token() -> str:
    """A new token that may submit jobs and look at them."""
    token = TokenDefinition(privileges=(Privilege.READ_JOB, Privilege.WRITE_JOB), forwho="bench")
    with transaction() as session:
        value, _ = create(session, token, SYSTEM)
    return value


def register(*plugins: Mapping[str, Any]) -> None:
    """Register a feature with these plugins, and turn it on."""
    feature = {"name": "bench", "author": "bench", "enabled": True, "plugins": list(plugins)}
    with transaction() as session:
        registry.register(session, FeatureBody().read(feature), SYSTEM)


@contextmanager
def plugin_server(stand: Stand, milliseconds: float, *, name: str = "plugins", nice: int = 0) -> Iterator[str]:
    """The URL of a server, in a process of its own, with a plugin of each type that takes so long (`plugins`)."""
    with closing(Listener("127.0.0.1", 0)) as listener:
        program = [sys.executable, "-m", "scripts.benchmarks.plugins", str(listener.fileno), str(milliseconds)]
        argv = ["nice", "-n", str(nice), *program]
        stand.start(
            Service(
                name=name,
                argv=argv,
                env=stand.environment,
                ready=lambda seconds: listener.answers("/readyz"),
                pass_fds=(listener.fileno,),
            )
        )
        yield listener.url


def redis_database(url: str, number: int) -> str:
    """The same Redis server, but another of its databases."""
    return make_url(url).set(database=str(number)).render_as_string(hide_password=False)


def wait_for(condition: Callable[[], Any], what: str, *, every: float = 0.02) -> float:
    """Wait until the condition is true; the time at which it was."""
    deadline = time.perf_counter() + PATIENCE_SECONDS
    while not condition():
        if time.perf_counter() > deadline:
            raise TimeoutError(f"waited {PATIENCE_SECONDS:g} s for {what}")
        time.sleep(every)
    return time.perf_counter()


def _report(name: str, change: Change, detail: str) -> None:
    if change in (Change.EXITED, Change.KILLED):
        print(f"{name} {change} {detail}", file=sys.stderr)
