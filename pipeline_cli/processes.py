"""`pipeline api`, `worker`, `beat` and `watch`: one process of the service, in the foreground.

Each command replaces this process (same PID, so that signals arrive), and so never returns.
"""

from __future__ import annotations

import os
import tempfile
from importlib.util import find_spec
from pathlib import Path

import click

from pipeline_core.clusters.factory import make
from pipeline_core.errors import ConfigurationError
from pipeline_core.settings import Settings, settings
from pipeline_core.stages.names import STAGES
from workers import names, processes

if find_spec("celery") is None:
    # Looked for only: the process that this one becomes imports it.
    raise ModuleNotFoundError("there is no Celery", name="celery")

EXAMPLES = {
    "PIPELINE_DATABASE_URL": "postgresql://user:password@127.0.0.1:5432/pipeline",
    "PIPELINE_REDIS_URL": "redis://127.0.0.1:6379/0",
}
"""What every process needs, with a value as it may look."""


def _checked_settings() -> Settings:
    """The settings. Raises click.UsageError when one is wrong, or the database or Redis is not named."""
    try:
        found = settings()
    except ConfigurationError as error:
        raise click.UsageError(error.message) from error
    given = {"PIPELINE_DATABASE_URL": found.database_url, "PIPELINE_REDIS_URL": found.redis_url}
    if missing := [f"{name} (such as {EXAMPLES[name]})" for name, value in given.items() if not value]:
        raise click.UsageError(
            f"set {' and '.join(missing)}: one process of the service starts no servers of its own, as `pipeline up` does"
        )
    return found


def _check_cluster() -> None:
    """End with exit code 2 when the settings suffice for no cluster. Does not ask the cluster: it may be back later."""
    try:
        make()
    except ConfigurationError as error:
        raise click.UsageError(error.message) from error


def _check_password() -> None:
    """End with exit code 2 when the API must not serve: nobody could log in as the admin, or everybody could."""
    # Imported here since it loads Flask, which workers do not need.
    from api.app import check_startup

    try:
        check_startup()
    except ConfigurationError as error:
        raise click.UsageError(error.message) from error


def _become(command: list[str]) -> None:
    os.execv(command[0], command)


@click.command()
@click.argument("kind", type=click.Choice([*processes.KINDS]))
@click.option("--name", default="", help="Node name, without the host. [default: KIND]")
@click.option(
    "--stage",
    "stages",
    multiple=True,
    type=click.Choice([*map(str, STAGES)]),
    help="Serve this stage alone; repeatable.",
)
@click.option("--concurrency", type=click.IntRange(min=1), help="Tasks at a time. [default: that of the kind]")
def worker(kind: str, name: str, stages: tuple[str, ...], concurrency: int | None) -> None:
    """Run a worker: of one kind, or of all kinds but the stages.

    The latter is the kind background, which also runs the ticks and the watcher, and asks shadows.
    """
    if stages and kind != "stages":
        raise click.UsageError(f"--stage is for the kind stages, not for {kind}")
    _checked_settings()
    if kind not in ("hooks", "shadows"):
        _check_cluster()
    queues = [names.stage_queue(stage) for stage in STAGES if str(stage) in stages]
    _become(processes.worker(kind, name=name, queues=queues, concurrency=concurrency or 0))


@click.command()
@click.option("--bind", default="127.0.0.1:8080", show_default=True, help="HOST:PORT to listen on.")
def api(bind: str) -> None:
    """Run the REST API."""
    checked = _checked_settings()
    _check_cluster()
    _check_password()
    _become(processes.api(bind, log_followers=checked.log_followers, event_waiters=checked.event_waiters))


@click.command()
@click.option(
    "--schedule",
    default=lambda: str(Path(tempfile.gettempdir()) / "pipeline-beat"),
    show_default="in the directory for temporary files",
    help="File that keeps the times of the last ticks; it may be lost.",
)
def beat(schedule: str) -> None:
    """Run beat, which sends the ticks.

    One is enough, and two do no harm.
    """
    _checked_settings()
    _become(processes.beat(schedule))


@click.command()
def watch() -> None:
    """Run the watcher, which follows the cluster.

    Of several, one watches and the others wait.
    """
    _checked_settings()
    _check_cluster()
    _become(processes.watcher())
