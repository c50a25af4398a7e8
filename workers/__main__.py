"""A process of the service: `python -m workers APP KIND`, with the options of its kind.

APP is the module of the Celery app. Celery's own command would also import all its other commands, and each plugin of it that
is installed, Flower for example: that doubles the time of a start.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any

from pipeline_core.common.imports import lean_imports
from pipeline_core.stages.names import Stage
from workers.names import task_modules


def parser() -> argparse.ArgumentParser:
    """The command line, with the names that Celery's own command has for the same options."""
    command = argparse.ArgumentParser(prog="python -m workers", allow_abbrev=False)
    command.add_argument("app")
    kinds = command.add_subparsers(dest="kind", required=True)
    worker = kinds.add_parser("worker", allow_abbrev=False)
    worker.add_argument("-n", dest="hostname", required=True)
    worker.add_argument("-Q", dest="queues", required=True)
    worker.add_argument("-c", dest="concurrency", type=int, required=True)
    worker.add_argument("--pool", required=True)
    worker.add_argument("--ticks", action="store_true", help="run the ticks in this process")
    worker.add_argument("--watch", action="store_true", help="run the watcher in this process")
    worker.add_argument("--shadows", action="store_true", help="keep a process that asks shadows")
    beat = kinds.add_parser("beat", allow_abbrev=False)
    beat.add_argument("--schedule", required=True)
    kinds.add_parser("watch", allow_abbrev=False)
    kinds.add_parser("shadows", allow_abbrev=False)
    alone = kinds.add_parser("alone", allow_abbrev=False)
    alone.add_argument("job")
    alone.add_argument("epoch", type=int)
    alone.add_argument("stage", type=Stage)
    alone.add_argument("holder")
    return command


def main(arguments: Sequence[str]) -> int:
    """Run the process until it is stopped. Returns its exit code."""
    return int(load(arguments)() or 0)


def load(arguments: Sequence[str]) -> Callable[[], int | None]:
    """Import all that the process needs. Returns what runs it, and returns its exit code."""
    options = parser().parse_args(arguments)
    with lean_imports():
        app: Any = import_module(options.app).app
        kinds = {"worker": _worker, "beat": _beat, "watch": _watch, "shadows": _shadows, "alone": _alone}
        return kinds[options.kind](app, options)


# Each imports what its kind needs, and returns what runs it.


def _worker(app: Any, options: argparse.Namespace) -> Callable[[], int | None]:
    from celery.utils.nodenames import default_nodename, host_format

    queues = options.queues.split(",")
    if options.ticks or options.watch or options.shadows:
        from workers import background

        steps = {
            background.Ticks: options.ticks,
            background.Watcher: options.watch,
            background.Shadows: options.shadows,
        }
        app.steps["worker"].update(step for step, wanted in steps.items() if wanted)
    app.conf.imports = task_modules(queues)
    worker = app.Worker(
        hostname=host_format(default_nodename(options.hostname)),
        queues=queues,
        concurrency=options.concurrency,
        pool_cls=options.pool,
        loglevel=logging.INFO,
        without_gossip=True,
        without_mingle=True,
    )

    def run() -> int | None:
        worker.start()
        exit_code: int | None = worker.exitcode
        return exit_code

    return run


def _beat(app: Any, options: argparse.Namespace) -> Callable[[], int | None]:
    app.conf.imports = task_modules(())
    beat: Callable[[], None] = app.Beat(schedule=options.schedule).run
    return beat


def _watch(app: Any, options: argparse.Namespace) -> Callable[[], int | None]:
    from workers import watch

    return watch.main


def _shadows(app: Any, options: argparse.Namespace) -> Callable[[], int | None]:
    from workers import shadow_process

    return shadow_process.main


def _alone(app: Any, options: argparse.Namespace) -> Callable[[], int | None]:
    from workers import alone

    return partial(alone.main, options.job, options.epoch, options.stage, options.holder)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
