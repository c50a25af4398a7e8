"""Asks shadows what they would have answered, in threads of its own, beside all that jobs wait for.

Each shadow has a few threads at most (CALLS_AT_A_TIME), so that one that is slow keeps only its own questions waiting, of which
the oldest are dropped. What is asked about a stage is read once for all its shadows, and answers that come within WRITE_SECONDS
are written together. What a process has taken is lost when it ends: nothing of a job depends on it.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from queue import SimpleQueue

import structlog
from redis import Redis
from redis.exceptions import RedisError

from pipeline_core.common.redis import connect
from pipeline_core.database import transaction
from pipeline_core.errors import PipelineError
from pipeline_core.features import snapshot
from pipeline_core.jobs import shadow_answers
from pipeline_core.jobs.shadow_answers import Answer, DecidedStage
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
WRITE_SECONDS = 0.5
"""How long answers are gathered before they are written."""
MOST_STAGES = 64
"""How many stages of jobs are kept after they were read."""


class ShadowWorker:
    """Takes the questions of all shadows, and asks them, until `stop` is called."""

    def __init__(self) -> None:
        self._redis: Redis = connect(settings().redis_url, LOOK_SECONDS + 2)
        self._keys: list[str] = []
        self._look_again_at = 0.0
        self._asking: dict[str, int] = {}
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._stages = StageReader()
        self._answers = AnswerWriter()

    def run(self) -> None:
        """Ask until `stop` is called. Calls under way are not waited for."""
        writing = threading.Thread(target=self._answers.run, name="shadow-answers", daemon=True)
        writing.start()
        try:
            self._take_on()
        finally:
            self._answers.stop()
            writing.join()

    def _take_on(self) -> None:
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
                self._ask(key, *question)
                question = None if self._stopped.is_set() else self._next(key)
        finally:
            with self._lock:
                self._asking[key] -= 1

    def _next(self, key: str) -> Question | None:
        try:
            return shadow_queue.take(self._redis, settings().redis_prefix, key)
        except RedisError:
            return None

    def _ask(self, key: str, job_id: str, stage: str, shadow_of: str, group: str) -> None:
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(job_id=job_id, stage=stage, shadow=key)
        try:
            decided = self._stages.read(job_id, stage, group)
            if decided and (answer := shadow_answers.ask(decided, key, shadow_of)):
                self._answers.put(answer)
        except PipelineError as error:
            totals().count(Metric.SHADOWS_DROPPED, (key,))
            log.info("shadow not asked", error=error.message)
        except Exception:
            totals().count(Metric.SHADOWS_DROPPED, (key,))
            log.exception("shadow not asked: unexpected error")


class StageReader:
    """Reads what shadows are asked about stages of jobs: once for questions that were put together. Threads share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read: OrderedDict[tuple[str, str, str], DecidedStage | None] = OrderedDict()

    def read(self, job_id: str, stage: str, group: str) -> DecidedStage | None:
        """As `shadow_answers.read`. Raises Unavailable."""
        key = (job_id, stage, group)
        with self._lock:
            if key not in self._read:
                with transaction() as session:
                    self._read[key] = shadow_answers.read(session, job_id, Stage(stage))
                if len(self._read) > MOST_STAGES:
                    self._read.popitem(last=False)
            return self._read[key]


class AnswerWriter:
    """Writes answers of shadows, those that come within WRITE_SECONDS together, until `stop` is called."""

    def __init__(self) -> None:
        self._answers: SimpleQueue[Answer | None] = SimpleQueue()

    def put(self, answer: Answer) -> None:
        """Have the answer written."""
        self._answers.put(answer)

    def run(self) -> None:
        """Write until `stop` is called; what came before that is written."""
        while (first := self._answers.get()) is not None:
            time.sleep(WRITE_SECONDS)
            answers = [first]
            while not self._answers.empty():
                if (another := self._answers.get()) is None:
                    self.stop()
                    break
                answers.append(another)
            _write(answers)

    def stop(self) -> None:
        """Let `run` end."""
        self._answers.put(None)


def _write(answers: Sequence[Answer]) -> None:
    try:
        with transaction() as session:
            shadow_answers.write(session, answers)
    except PipelineError as error:
        _drop(answers)
        log.warning(f"{len(answers)} answers of shadows are not stored", error=error.message)
    except Exception:
        if len(answers) == 1:
            _drop(answers)
            log.exception("a shadow's answer is not stored: unexpected error")
        else:
            # One that PostgreSQL refuses costs no other.
            for answer in answers:
                _write([answer])


def _drop(answers: Sequence[Answer]) -> None:
    for answer in answers:
        totals().count(Metric.SHADOWS_DROPPED, (answer.given.plugin_key,))
