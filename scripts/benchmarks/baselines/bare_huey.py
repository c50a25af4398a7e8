"""A Huey application with a pipeline of tasks that do nothing."""

from __future__ import annotations

import os
from typing import Any

from huey import RedisHuey

TASKS = 5

huey = RedisHuey("bare", url=os.environ["BENCH_HUEY_URL"], results=False)


@huey.task()
def nothing() -> None:
    """One of a pipeline."""


def a_pipeline() -> Any:
    """Five tasks, one after the other."""
    pipeline = nothing.s()
    for _ in range(TASKS - 1):
        pipeline = pipeline.then(nothing)
    return pipeline
