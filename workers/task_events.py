"""Celery's task events for stages that a worker carries on in place, so that Flower shows them as tasks of their own."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from celery import Task

from pipeline_core.stages.names import Stage
from workers.names import stage_task


@contextmanager
def announced(task: Task[Any, Any], stage: Stage, signature: Mapping[str, Any] | None) -> Iterator[None]:
    """Send the events of a task that runs during the block, if this worker sends events.

    `signature` is what `task.request.chain` had for the stage; its ID is the task's.
    """
    if not task.app.conf.worker_send_task_events:
        yield
        return
    id = str(signature["options"]["task_id"]) if signature else str(uuid.uuid4())
    request: Any = task.request
    about = {"uuid": id, "name": stage_task(stage), "root_id": request.root_id, "parent_id": request.id}
    arguments = repr((request.args[0], request.args[1], str(stage)))
    started = time.monotonic()
    with task.app.events.default_dispatcher(hostname=request.hostname) as events:
        events.send("task-received", **about, args=arguments, kwargs="{}", retries=0, eta=None, expires=None)
        events.send("task-started", **about)
        try:
            yield
        except Exception as error:
            events.send("task-failed", uuid=id, exception=repr(error), traceback="")
            raise
        events.send("task-succeeded", uuid=id, result="None", runtime=time.monotonic() - started)
