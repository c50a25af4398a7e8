"""`pipeline up`: the whole service on one machine, in the foreground."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from sqlalchemy.exc import OperationalError

from pipeline_core import runtime
from pipeline_core.auth.actor import SYSTEM
from pipeline_core.auth.tokens import check_startup
from pipeline_core.clusters.base import ClusterDenied, ClusterUnavailable
from pipeline_core.clusters.factory import cluster, make
from pipeline_core.clusters.local.launcher import shortcomings
from pipeline_core.common.redis import error_of
from pipeline_core.database import transaction
from pipeline_core.database.migrate import upgrade
from pipeline_core.errors import ConfigurationError, Conflict, NotFound, PipelineError
from pipeline_core.flows.runs import run_signals
from pipeline_core.jobs import control
from pipeline_core.settings import settings
from pipeline_up import flower
from pipeline_up.data_directory import DataDirectory
from pipeline_up.embedded import EmbeddedPostgres, EmbeddedRedis, EmbeddedServer
from pipeline_up.environment import child_environment, kept_secret_key
from pipeline_up.listener import Listener
from pipeline_up.plan import ProcessPlan
from pipeline_up.replicas import jobs_with_replicas, stop_replicas
from pipeline_up.service import Service
from pipeline_up.supervisor import Change, ServiceSupervisor, StartFailed, StopRequested
from workers import processes

READY_SECONDS = 180.0
SERVER_STOP_SECONDS = 30.0
MARKS = {Change.READY: "[green]●[/]", Change.EXITED: "[red]●[/]", Change.STOPPED: "○", Change.KILLED: "[yellow]○[/]"}
worker_count = click.IntRange(1, 64)


class CannotStart(click.ClickException):
    """Nothing was started: the message is printed on standard error, the exit code is 2."""

    exit_code = 2


def _directory(context: click.Context, parameter: click.Parameter, value: str | None) -> Path | None:
    if value == "":
        raise click.BadParameter("is empty; a directory is needed, or none for PIPELINE_DATA_DIR")
    return Path(value) if value else None


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address that the API listens on.")
@click.option("--port", default=8080, show_default=True, type=click.IntRange(0, 65535), help="Port; 0: any free one.")
@click.option("--data-dir", callback=_directory, help="Where all data is kept. [default: PIPELINE_DATA_DIR]")
@click.option(
    "--stage-workers",
    default=processes.stage_workers,
    show_default="one for each core, at most 4",
    type=worker_count,
    help="Workers that run the stages.",
)
@click.option("--hook-workers", default=1, show_default=True, type=worker_count, help="Workers that call LifeHooks.")
@click.option("--split", is_flag=True, help="Run hooks, flows, housekeeping, beat and the watcher in a process each.")
@click.option("--flower", "flower_too", is_flag=True, help="Show the Celery tasks in Flower, on this machine alone.")
@click.option(
    "--flower-port", default=5555, show_default=True, type=click.IntRange(1, 65535), help="Port that Flower listens on."
)
@click.option("--stop-jobs", is_flag=True, help="When the service is stopped, stop the jobs' replicas too.")
def up(
    host: str,
    port: int,
    data_dir: Path | None,
    stage_workers: int,
    hook_workers: int,
    split: bool,
    flower_too: bool,
    flower_port: int,
    stop_jobs: bool,
) -> None:
    """Run the whole service on this machine until Ctrl-C.

    PostgreSQL and Redis are started too, unless PIPELINE_DATABASE_URL and PIPELINE_REDIS_URL name others.
    """
    console = Console(highlight=False, soft_wrap=True)
    try:
        if flower_too:
            flower.check()
        _check_cluster(console)
        # The port is bound first, so that a failed start creates no data directory.
        with closing(Listener(host, port)) as listener, DataDirectory(data_dir or settings().data_dir) as data:
            if data.reaped:
                console.print(f"Ended what an earlier run left behind: {', '.join(data.reaped)}.")
            workers = {"stage_workers": stage_workers, "hook_workers": hook_workers, "split": split}
            _serve(data, listener, console, workers, flower_port if flower_too else None, stop_jobs)
            _tell_of_replicas(console, stop_jobs)
    except ConfigurationError as error:
        raise CannotStart(error.message) from error
    except PipelineError as error:
        raise click.ClickException(error.message) from error


def _serve(
    data: DataDirectory,
    listener: Listener,
    console: Console,
    workers: Mapping[str, Any],
    flower_port: int | None,
    stop_jobs: bool,
) -> None:
    def report(name: str, change: Change, detail: str) -> None:
        console.print(f"{MARKS[change]} {name:<14}{change} {escape(detail)}")

    supervisor = ServiceSupervisor(data, report)
    configured = settings()
    postgres = None if configured.database_url else EmbeddedPostgres(data.path / "postgres")
    redis = None if configured.redis_url else EmbeddedRedis(data.path / "redis")
    servers = [server for server in (postgres, redis) if server]
    for server in servers:
        server.prepare()
    try:
        with supervisor.listening():
            supervisor.start(*map(server_service, servers))
            supervisor.wait_ready(READY_SECONDS)
            environment = child_environment(
                os.environ,
                database_url=postgres.url if postgres else configured.database_url,
                redis_url=redis.url if redis else configured.redis_url,
                secret_key=configured.secret_key or kept_secret_key(data.path),
                data_dir=data.path,
                loopback=listener.loopback,
            )
            views = []
            if flower_port:
                environment["PIPELINE_TASK_EVENTS"] = "1"
                password = flower.password(configured.flower_password, data.path)
                views.append(flower.flower(environment, flower_port, password))
            # From here on this process has the settings of the processes that it starts.
            os.environ.update(environment)
            runtime.install(runtime.Runtime())
            _prepare()
            plan = ProcessPlan(
                environment=environment,
                data_dir=data.path,
                listener=listener.fileno,
                api_ready=lambda: listener.answers("/readyz"),
                **workers,
            )
            supervisor.start(*plan.services(), *views)
            supervisor.wait_ready(READY_SECONDS)
            _welcome(console, data, listener)
            if flower_port:
                console.print(
                    f"Flower answers at [bold]http://{flower.HOST}:{flower_port}[/] to the user {flower.USER}, "
                    f"password {escape(password)}"
                )
            supervisor.watch()
            console.print("Stopping; Ctrl-C once more hastens it.")
            listener.close()
            if stop_jobs:
                _stop_jobs()
    except StopRequested:
        console.print("Stopped before all was ready.")
    finally:
        for server in servers:
            server.clean()


def server_service(server: EmbeddedServer) -> Service:
    """A prepared embedded server as a service of the supervisor. Its environment has no secrets of the service."""
    return Service(
        name=server.name,
        argv=server.command,
        env={"PATH": os.defpath, "LC_ALL": "C"},
        ready=lambda seconds: server.ready(),
        stop_signal=server.stop_signal,
        stop_seconds=SERVER_STOP_SECONDS,
        stopping=server.stopping,
    )


def _prepare() -> None:
    """Migrate the database, and check that the service can be used, before its processes are started."""
    _migrate(settings().database_url)
    with transaction() as session:
        check_startup(session)
    if error := error_of(settings().redis_url, seconds=5):
        raise StartFailed(f"Redis cannot be used: {error}") from error


def _check_cluster(console: Console) -> None:
    """Raises ConfigurationError when the settings suffice for no cluster, or the cluster refuses the service. One that cannot be
    reached may be back later: then only says so.
    """
    name = settings().cluster_name
    try:
        make().check()
    except ClusterDenied as error:
        raise ConfigurationError(f"The cluster {name} cannot be used: {error.message}") from error
    except ClusterUnavailable as error:
        console.print(escape(f"The cluster {name} cannot be used at present, so jobs will wait: {error.message}"))


def _migrate(url: str) -> None:
    try:
        upgrade(url)
    except OperationalError as error:
        raise StartFailed(f"The database cannot be used: {error.orig}") from error


def _welcome(console: Console, data: DataDirectory, listener: Listener) -> None:
    console.print(f"\nPipeline answers at [bold]{listener.url}[/]. Ctrl-C stops it. Logs: {escape(str(data.logs))}")
    if settings().cluster_driver == "local":
        console.print("Jobs run as processes of this machine: images are not used.")
        for shortcoming in shortcomings():
            console.print(escape(shortcoming))


def _stop_jobs() -> None:
    """Mark the jobs that run on this machine as stopped; their replicas are ended after the service has stopped."""
    if settings().cluster_driver != "local":
        return
    run_signals.listen()
    for job_id in jobs_with_replicas(cluster()):
        with suppress(Conflict, NotFound):
            control.stop(job_id, SYSTEM, reason="stopped with the service (--stop-jobs)")


def _tell_of_replicas(console: Console, stop_jobs: bool) -> None:
    """Print how many replicas of the local cluster are left running, or stop them."""
    if settings().cluster_driver != "local":
        return
    jobs = jobs_with_replicas(cluster())
    if not jobs:
        return
    what = f"{sum(jobs.values())} replicas of {len(jobs)} jobs"
    if not stop_jobs:
        console.print(f"{what} are left running; the next start finds them again. --stop-jobs would stop them.")
    elif stop_replicas(cluster(), jobs):
        console.print(f"Stopped {what}.")
    else:
        console.print(f"Not all of {what} ended in time.")


if __name__ == "__main__":
    up()
