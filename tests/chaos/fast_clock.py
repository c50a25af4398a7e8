"""The service's workers with a clock for schedules on which a minute takes a second.

Celery loads it as the module of its app, in place of `workers.app`. At FAST_CLOCK_ORIGIN, in unix seconds, the clock shows
the real time.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime

from pipeline_core.flows.runs import admission, creation
from pipeline_core.flows.schedules import run_creation
from workers.app import app

SPEED = 60
ORIGIN = datetime.fromtimestamp(float(os.environ["FAST_CLOCK_ORIGIN"]), UTC)


def fast_now() -> datetime:
    return ORIGIN + SPEED * (datetime.now(UTC) - ORIGIN)


for module in (admission, run_creation, creation):
    module.now = fast_now  # type: ignore[attr-defined]


__all__ = ["app"]
