"""Asks shadows what they would have answered, in threads of its own, beside all that jobs wait for.

Each shadow has a few threads at most (CALLS_AT_A_TIME), so that one that is slow keeps only its own questions waiting, of which
the oldest are dropped. What a process has taken is lost when it ends: nothing of a job depends on it.
"""

from __future__ import annotations

import threading
import time

import structlog
from redis import Redis
from redis.exceptions import RedisError

from pipeline_core.common.redis import connect
from pipeline_core.database import transaction
from pipeline_core.errors import PipelineError
from pipeline_core.features import snapshot
from pipeline_core.jobs import shadow_answers
from pipeline_core.metrics.totals import Metric, totals
from pipeline_core.plugins import shadow_queue
from pipeline_core.plugins.shadow_queue import Question
from pipeline_core.settings import settings
from pipeline_core.stages.names import Stage

log = structlog.get_logger(__name__)

CALLS_AT_A_TIME = 4
"""How many questions one shadow is asked at a time by one process."""
LOOK_SECONDS = 1.0
"""How often the process looks which shadows there are."""


class ShadowWorker:
    """Takes the questions of all shadows, and asks them, until `stop` is called."""

    def __init__(self) -> None:
        self._redis: Redis = connect(settings().redis_url, LOOK_SECONDS + 2)
        self._keys: list[str] = []
        self._look_again_at = 0.0
        self._asking: dict[str, int] = {}
        self._lock = threading.Lock()
        self._stopped = threading.Event()

    def run(self) -> None:
        """Ask until `stop` is called. Calls under way are not waited for."""
        pause = 0.0
        while not self._stopped.wait(pause):
            try:
                pause = self._take(self._free(self._shadows()))
            except (RedisError, PipelineError) as error:
                log.warning("shadows are not asked", error=str(error))
                pause = LOOK_SECONDS

    def stop(self) -> None:
        """Take no more questions."""
        self._stopped.set()

    def _shadows(self) -> list[str]:
        if time.monotonic() >= self._look_again_at:
            with transaction() as session:
                found = snapshot.current(session).shadows()
            # What was promoted meanwhile may have questions left from when it was a shadow.
            keys = [key for plugin in found for key in (plugin.key, plugin.shadow_of) if key]
            self._keys = list(dict.fromkeys(keys))
            self._look_again_at = time.monotonic() + LOOK_SECONDS
        return self._keys

    def _free(self, keys: list[str]) -> list[str]:
        """Those of the shadows that may be asked more, first those that are asked least."""
        with self._lock:
            asked = {key: self._asking.get(key, 0) for key in keys}
        return sorted((key for key in keys if asked[key] < CALLS_AT_A_TIME), key=lambda key: asked[key])

    def _take(self, keys: list[str]) -> float:
        """Take a question for one of these shadows, and have it asked. Returns the pause until the next."""
        if not keys:
            return LOOK_SECONDS
        taken = shadow_queue.take_any(self._redis, settings().redis_prefix, keys, LOOK_SECONDS)
        if taken is not None:
            key, question = taken
            with self._lock:
                self._asking[key] = self._asking.get(key, 0) + 1
            # A process that is stopped does not wait for it.
            threading.Thread(target=self._ask_all, args=(key, question), name="shadow", daemon=True).start()
        return 0.0

    def _ask_all(self, key: str, first: Question) -> None:
        """Ask one shadow this question, and then those that wait for it."""
        question: Question | None = first
        try:
            while question is not None:
                _ask(key, *question)
                question = None if self._stopped.is_set() else self._next(key)
        finally:
            with self._lock:
                self._asking[key] -= 1

    def _next(self, key: str) -> Question | None:
        try:
            return shadow_queue.take(self._redis, settings().redis_prefix, key)
        except RedisError:
            return None


def _ask(key: str, job_id: str, stage: str, shadow_of: str) -> None:
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(job_id=job_id, stage=stage, shadow=key)
    try:
        shadow_answers.answer(job_id, Stage(stage), key, shadow_of)
    except PipelineError as error:
        totals().count(Metric.SHADOWS_DROPPED, (key,))
        log.info("shadow not asked", error=error.message)
    except Exception:
        totals().count(Metric.SHADOWS_DROPPED, (key,))
        log.exception("shadow not asked: unexpected error")
