"""Asks shadows what they would have answered, in threads of its own, beside all that jobs wait for.

Questions that come within GATHER_SECONDS are taken together, and what they are about is read by a few statements for all of them;
answers that come within WRITE_SECONDS are written together. Each shadow has a few threads at most (CALLS_AT_A_TIME), so that one
that is slow keeps only its own questions waiting, of which the oldest are dropped. What a process has taken is lost when it ends:
nothing of a job depends on it.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
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
from pipeline_core.plugins.shadow_queue import Addressed
from pipeline_core.settings import settings
from pipeline_core.stages.names import PLUGIN_TYPE, Stage

log = structlog.get_logger(__name__)

CALLS_AT_A_TIME = 4
"""How many questions one shadow is asked at a time by one process."""
IDLE_SECONDS = 5.0
"""How long a thread waits for another question before it ends."""
LOOK_SECONDS = 1.0
"""How often the process looks which shadows there are."""
WRITE_SECONDS = 0.5
"""How long answers are gathered before they are written."""
GATHER_SECONDS = 0.25
"""How long questions are gathered before they are taken."""
MOST_TAKEN = 32
"""How many questions a process has taken for one shadow at most, asked and still to be asked: so it asks it 128 a second at most,
as often as it gathers."""


class ShadowWorker:
    """Takes the questions of all shadows, and asks them, until `stop` is called."""

    def __init__(self) -> None:
        self._redis: Redis = connect(settings().redis_url, LOOK_SECONDS + 2)
        self._keys: list[str] = []
        self._look_again_at = 0.0
        self._lines: defaultdict[str, ShadowLine] = defaultdict(lambda: ShadowLine(self._ask))
        self._stopped = threading.Event()
        self._answers = AnswerWriter()

    def run(self) -> None:
        """Ask until `stop` is called. Calls under way are not waited for."""
        writing = threading.Thread(target=self._answers.run, name="shadow-answers", daemon=True)
        writing.start()
        try:
            self._take_on()
        finally:
            for line in self._lines.values():
                line.stop()
            self._answers.stop()
            writing.join()

    def _take_on(self) -> None:
        pause = 0.0
        while not self._stopped.wait(pause):
            try:
                pause = self._take(self._places(self._shadows()))
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

    def _places(self, keys: Sequence[str]) -> dict[str, int]:
        """How many questions may be taken for each of the shadows, those left out for which none may."""
        places = {key: MOST_TAKEN - self._lines[key].length for key in keys}
        return {key: free for key, free in places.items() if free > 0}

    def _take(self, places: dict[str, int]) -> float:
        """Take questions for these shadows, and have them asked. Returns the pause until the next."""
        if not places:
            return GATHER_SECONDS if self._keys else LOOK_SECONDS
        prefix = settings().redis_prefix
        first = shadow_queue.wait(self._redis, prefix, places, LOOK_SECONDS)
        if first is None:
            return 0.0
        self._stopped.wait(GATHER_SECONDS)
        places[first[0]] -= 1
        more = shadow_queue.take(self._redis, prefix, {key: free for key, free in places.items() if free > 0})
        self._put([first, *more])
        return 0.0

    def _put(self, taken: Sequence[Addressed]) -> None:
        """Read what these questions are about, and let their shadows be asked."""
        known = [(key, question) for key, question in taken if question[1] in PLUGIN_TYPE]
        wanted = list(dict.fromkeys((job_id, Stage(stage)) for _, (job_id, stage, _) in known))
        try:
            stages = _read(wanted)
        except PipelineError as error:
            for key, _ in known:
                _drop(key)
            log.info(f"{len(known)} questions of shadows are not asked", error=error.message)
            return
        for key, (job_id, stage, shadow_of) in known:
            if decided := stages.get((job_id, Stage(stage))):
                self._lines[key].put((key, decided, shadow_of))

    def _ask(self, key: str, decided: DecidedStage, shadow_of: str) -> None:
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(job_id=decided.job_id, stage=decided.stage, shadow=key)
        try:
            if answer := shadow_answers.ask(decided, key, shadow_of):
                self._answers.put(answer)
        except PipelineError as error:
            _drop(key)
            log.info("shadow not asked", error=error.message)
        except Exception:
            _drop(key)
            log.exception("shadow not asked: unexpected error")


class ShadowLine:
    """What one shadow is still to be asked by this process, in a few threads that end when nothing comes for a while."""

    def __init__(self, ask: Callable[[str, DecidedStage, str], None]) -> None:
        self._ask = ask
        self._waiting: deque[tuple[str, DecidedStage, str]] = deque()
        self._threads = self._idle = 0
        self._more = threading.Condition()

    @property
    def length(self) -> int:
        """How many questions wait or are being asked."""
        return len(self._waiting) + self._threads - self._idle

    def put(self, question: tuple[str, DecidedStage, str]) -> None:
        """Have the shadow asked this: its key, the stage, and the key of the plugin that it is to replace."""
        with self._more:
            self._waiting.append(question)
            if self._idle >= len(self._waiting):
                self._more.notify()
            elif self._threads < CALLS_AT_A_TIME:
                self._threads += 1
                # A process that is stopped does not wait for it.
                threading.Thread(target=self._ask_all, name="shadow", daemon=True).start()

    def stop(self) -> None:
        """Ask nothing more of what waits."""
        self._waiting.clear()

    def _ask_all(self) -> None:
        while question := self._next():
            self._ask(*question)

    def _next(self) -> tuple[str, DecidedStage, str] | None:
        """The next question; None, for the thread to end, when none has come for IDLE_SECONDS."""
        with self._more:
            if not self._waiting:
                self._idle += 1
                self._more.wait(IDLE_SECONDS)
                self._idle -= 1
            if self._waiting:
                return self._waiting.popleft()
            self._threads -= 1
            return None


def _read(stages: Sequence[tuple[str, Stage]]) -> dict[tuple[str, Stage], DecidedStage]:
    """As `shadow_answers.read`; without those that cannot be read. Raises Unavailable."""
    try:
        with transaction() as session:
            return shadow_answers.read(session, stages)
    except PipelineError:
        raise
    except Exception:
        if len(stages) == 1:
            log.exception("shadows not asked: unexpected error", job_id=stages[0][0], stage=stages[0][1])
            return {}
        # One that cannot be read costs no other.
        return {key: decided for stage in stages for key, decided in _read([stage]).items()}


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
        for answer in answers:
            _drop(answer.given.plugin_key)
        log.warning(f"{len(answers)} answers of shadows are not stored", error=error.message)
    except Exception:
        if len(answers) == 1:
            _drop(answers[0].given.plugin_key)
            log.exception("a shadow's answer is not stored: unexpected error")
        else:
            # One that PostgreSQL refuses costs no other.
            for answer in answers:
                _write([answer])


def _drop(key: str) -> None:
    totals().count(Metric.SHADOWS_DROPPED, (key,))
