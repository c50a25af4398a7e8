"""The listeners to changes of jobs' states."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from celery.signals import worker_init, worker_process_init

from api.app import create_app
from pipeline_cli import up
from pipeline_core.clusters import factory
from pipeline_core.flows.runs import run_signals
from pipeline_core.jobs import lifecycle
from workers import watch
from workers.app import app

pytestmark = pytest.mark.usefixtures("fresh_runtime")


def api(_: pytest.MonkeyPatch) -> None:
    create_app()


def worker(_: pytest.MonkeyPatch) -> None:
    app.loader.import_default_modules()
    worker_init.send(sender=app)


def child_of_a_worker(_: pytest.MonkeyPatch) -> None:
    app.loader.import_default_modules()
    worker_process_init.send(sender=app)


def watcher(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(watch, "watch", lambda stop, owner: None)
    patch.setattr("signal.signal", lambda number, handler: None)
    watch.main()


def up_with_stop_jobs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(up, "jobs_with_replicas", lambda cluster: {})
    patch.setattr(factory, "cluster", lambda: None)
    up._stop_jobs()


@pytest.mark.parametrize("start", [api, worker, child_of_a_worker, watcher, up_with_stop_jobs])
def test_every_process_that_changes_jobs_signals_their_runs(
    start: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    start(monkeypatch)
    assert lifecycle.listeners() == (run_signals.signal_run,)


def test_a_listener_that_registers_again_is_called_once() -> None:
    run_signals.listen()
    run_signals.listen()
    assert len(lifecycle.listeners()) == 1
