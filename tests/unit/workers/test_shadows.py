"""What shadows are asked about is read once for all of them, and their answers are written together."""

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
from workers import shadows
from workers.shadows import AnswerWriter, StageReader


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


def test_a_stage_is_read_once_for_questions_that_were_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[tuple[str, Stage]] = []
    monkeypatch.setattr(shadow_answers, "read", lambda session, job_id, stage: reads.append((job_id, stage)))
    reader = StageReader()
    threads = [threading.Thread(target=reader.read, args=("j0", "gates", group)) for group in "aaaab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert reads == [("j0", Stage.GATES)] * 2
