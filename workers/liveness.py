"""The liveness file: a process touches it while it makes progress, and a liveness probe checks its age.

When the file is old, the probe runs `python -m workers.liveness`, which fails unless Redis is unavailable: Celery's processes
wait for Redis, and restarting them would not help.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pipeline_core.common.redis import answers
from pipeline_core.settings import settings


def touch() -> None:
    """Touch the file that `PIPELINE_LIVENESS_FILE` names, if it names one."""
    if settings().liveness_file:
        Path(settings().liveness_file).touch()


if __name__ == "__main__":
    sys.exit("the liveness file is old, and Redis answers" if answers(settings().redis_url) else 0)
