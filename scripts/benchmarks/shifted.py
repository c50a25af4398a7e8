"""The service's workers with a clock that the benchmark puts forward: the next minute then comes when it is wanted.

Loaded in front of `workers.app`. Only schedules and the start of runs go by this clock.
"""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from pathlib import Path

from pipeline_core.common import clock
from pipeline_core.flows.runs import admission
from pipeline_core.flows.schedules import run_creation
from scripts.benchmarks.clock_file import VARIABLE
from workers.app import app


def shifted() -> datetime:
    return clock.now() + timedelta(seconds=float(Path(os.environ[VARIABLE]).read_text()))


for module in (run_creation, admission):
    vars(module)["now"] = shifted

__all__ = ["app"]
