"""Each shadow is asked a few questions at a time, and answers are written together."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import nullcontext
from typing import Any

import pytest

from pipeline_core.common.clock import now
from pipeline_core.errors import Unavailable
from pipeline_core.jobs import shadow_answers
from pipeline_core.jobs.shadow_answers import Answer
from pipeline_core.metrics.totals import Metric, totals
from pipeline_core.runtime import restart
from pipeline_core.stages.names import Stage
from pipeline_core.stages.outcomes import TrailEntry, TrailOutcome
from tests.waiting import HANG_SECONDS, wait_for
from workers import shadows
from workers.shadows import AnswerWriter, ShadowLine


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(shadows, "transaction", nullcontext)
    monkeypatch.setattr(shadows, "WRITE_SECONDS", 0.0)
    restart()
    yield
    restart()


def answer(name: str) -> Answer:
    given = TrailEntry(plugin_key=name, outcome=TrailOutcome.ANSWERED, started_at=now())
    return Answer(job_id="j0", stage=Stage.GATES, shadow_of="", trail_id=None, agrees=None, given=given)


def written(monkeypatch: pytest.MonkeyPatch, answers: Sequence[Answer], refused: type[Exception]) -> list[list[str]]:
    """The batches that are written of these answers; whatever has one of the plugin `bad` is refused."""
    batches: list[list[str]] = []

    def write(session: Any, batch: Collection[Answer]) -> None:
        names = [each.given.plugin_key for each in batch]
        if "bad" in names:
            raise refused("refused")
        batches.append(names)

    monkeypatch.setattr(shadow_answers, "write", write)
    writer = AnswerWriter()
    for each in answers:
        writer.put(each)
    writer.stop()
    writer.run()
    return batches


def test_answers_that_come_together_are_written_together_and_the_last_ones_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert written(monkeypatch, [answer("a"), answer("b")], ValueError) == [["a", "b"]]


def test_an_answer_that_cannot_be_stored_costs_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    assert written(monkeypatch, [answer("a"), answer("bad"), answer("b")], ValueError) == [["a"], ["b"]]


def test_answers_are_dropped_while_the_database_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[tuple[str, ...]] = []
    monkeypatch.setattr(totals(), "count", lambda metric, labels: counts.append((metric, *labels)))
    assert written(monkeypatch, [answer("a"), answer("bad")], Unavailable) == []
    assert counts == [(Metric.SHADOWS_DROPPED, "a"), (Metric.SHADOWS_DROPPED, "bad")]


def test_a_stage_that_cannot_be_read_costs_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(session: Any, stages: Collection[tuple[str, Stage]]) -> dict[tuple[str, Stage], str]:
        if ("bad", Stage.GATES) in stages:
            raise ValueError
        return {stage: stage[0] for stage in stages}

    monkeypatch.setattr(shadow_answers, "read", read)
    stages = [(job_id, Stage.GATES) for job_id in ("j0", "bad", "j1")]
    assert list(shadows._read(stages).values()) == ["j0", "j1"]


def test_a_shadow_is_asked_a_few_questions_at_a_time_and_each_once() -> None:
    full, go_on = threading.Semaphore(0), threading.Event()
    asked: list[str] = []

    def ask(key: str, decided: Any, shadow_of: str) -> None:
        asked.append(shadow_of)
        full.release()
        go_on.wait(HANG_SECONDS)

    line = ShadowLine(ask)
    questions = [f"q{number}" for number in range(3 * shadows.CALLS_AT_A_TIME)]
    for question in questions:
        line.put(("s", None, question))  # type: ignore[arg-type]
    for _ in range(shadows.CALLS_AT_A_TIME):
        assert full.acquire(timeout=HANG_SECONDS)
    assert (len(asked), line.length) == (shadows.CALLS_AT_A_TIME, len(questions))
    go_on.set()
    wait_for(lambda: line.length == 0, "all to be asked")
    assert sorted(asked) == sorted(questions)


def test_a_thread_asks_what_comes_later_too() -> None:
    threads: list[threading.Thread] = []
    line = ShadowLine(lambda key, decided, shadow_of: threads.append(threading.current_thread()))
    for number in range(3):
        line.put(("s", None, str(number)))  # type: ignore[arg-type]
        wait_for(lambda: line.length == 0, "it to be asked")
    assert len(threads) == 3
    assert len(set(threads)) == 1


def test_a_thread_ends_when_nothing_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shadows, "IDLE_SECONDS", 0.0)
    threads: list[threading.Thread] = []
    line = ShadowLine(lambda key, decided, shadow_of: threads.append(threading.current_thread()))
    for number in range(2):
        line.put(("s", None, str(number)))  # type: ignore[arg-type]
        wait_for(lambda number=number: len(threads) > number, "it to be asked")  # type: ignore[misc]
        threads[number].join(HANG_SECONDS)
        assert not threads[number].is_alive()


def test_nothing_more_is_asked_after_the_end() -> None:
    go_on = threading.Event()
    asked: list[str] = []

    def ask(key: str, decided: Any, shadow_of: str) -> None:
        asked.append(shadow_of)
        go_on.wait(HANG_SECONDS)

    line = ShadowLine(ask)
    for number in range(2 * shadows.CALLS_AT_A_TIME):
        line.put(("s", None, str(number)))  # type: ignore[arg-type]
    wait_for(lambda: len(asked) == shadows.CALLS_AT_A_TIME, "the first ones to be asked")
    line.stop()
    go_on.set()
    wait_for(lambda: line.length == 0, "the calls to end")
    assert len(asked) == shadows.CALLS_AT_A_TIME
