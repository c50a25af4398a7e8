"""What a plugin may answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pipeline_core.plugins import answers as service
from pipeline_plugin import answers


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (answers.passed("fine"), service.GateAnswer(service.Decision.PASS, "fine")),
        (answers.stop(), service.GateAnswer(service.Decision.STOP)),
        (answers.suspend("wait"), service.GateAnswer(service.Decision.SUSPEND, "wait")),
        (
            answers.suspend(for_seconds=3600, on_timeout="resume"),
            service.GateAnswer(service.Decision.SUSPEND, "", 3600, service.OnTimeout.RESUME),
        ),
        (
            answers.suspend(ask_again_after_seconds=0.5),
            service.GateAnswer(service.Decision.SUSPEND, ask_again_after_seconds=0.5),
        ),
    ],
)
def test_the_service_reads_each_decision_as_it_was_meant(made: answers.Decision, expected: service.GateAnswer) -> None:
    assert service.gate(answers.encoded(made.document())) == expected


@pytest.mark.parametrize(
    "make",
    [
        lambda: answers.passed(7),  # type: ignore[arg-type]
        lambda: answers.suspend(for_seconds=0),
        lambda: answers.suspend(for_seconds=True),
        lambda: answers.suspend(ask_again_after_seconds=float("nan")),
        lambda: answers.suspend(for_seconds=answers.MAX_SECONDS + 1),
        lambda: answers.suspend(for_seconds=1, ask_again_after_seconds=1),
        lambda: answers.suspend(on_timeout="resume"),
        lambda: answers.suspend(for_seconds=1, on_timeout="pass"),
        lambda: answers.factor("", 1),
        lambda: answers.factor("t", float("inf")),
        lambda: answers.factor("t", object()),
        lambda: answers.factor("t", 1, None),  # type: ignore[arg-type]
        lambda: answers.retry(-1),
    ],
)
def test_what_the_service_would_refuse_raises_where_it_is_written(make: Callable[[], Any]) -> None:
    with pytest.raises((TypeError, ValueError)):
        make()


def test_the_limit_is_that_of_the_service() -> None:
    assert answers.MAX_SECONDS == service.MAX_SECONDS


def test_a_factor_may_have_any_advice() -> None:
    made = answers.factor("priority", {"levels": [1, None, "ü"]}, "why")
    assert service.factors(answers.encoded([made.document()])) == (
        service.Factor("priority", {"levels": [1, None, "ü"]}, "why"),
    )


@pytest.mark.parametrize("made", [answers.received(), answers.retry(5), answers.give_up()])
def test_the_service_knows_each_acknowledgement(made: answers.Acknowledgement) -> None:
    assert service.acknowledgement(made.word.encode()) == made.word
    assert made.headers() == ({"Retry-After": "5"} if made.word == "RE" else {})
