"""The service's workers with a clock for schedules on which a minute takes a second.

Loaded in front of the service itself, by Celery as the module of its app. Its origin is in HASTENING_ORIGIN, in unix
seconds: there the clock is right.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime

from pipeline_core.flows.runs import admission, creation
from pipeline_core.flows.schedules import firing
from workers.app import app

SPEED = 60
ORIGIN = datetime.fromtimestamp(float(os.environ["HASTENING_ORIGIN"]), UTC)


def hastened() -> datetime:
    return ORIGIN + SPEED * (datetime.now(UTC) - ORIGIN)


for module in (admission, firing, creation):
    module.now = hastened  # type: ignore[attr-defined]


__all__ = ["app"]
