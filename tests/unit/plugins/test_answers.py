from __future__ import annotations

import json
from typing import Any

import pytest

from pipeline_core.plugins.answers import (
    MAX_SECONDS,
    Acknowledgement,
    Decision,
    Factor,
    GateAnswer,
    OnTimeout,
    acknowledgement,
    factors,
    gate,
    taskset,
)
from pipeline_core.plugins.errors import BadAnswer


def body(value: Any) -> bytes:
    return json.dumps(value).encode()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"topic": "gpu", "advice": "T4"}, (Factor("gpu", "T4"),)),
        ([{"topic": "gpu", "advice": None, "reason": "why"}], (Factor("gpu", None, "why"),)),
        (
            [{"topic": "a", "advice": {"x": [1]}}, {"topic": "b", "advice": 0}],
            (Factor("a", {"x": [1]}), Factor("b", 0)),
        ),
        ([], ()),
        ({"topic": "gpu", "advice": False, "reason": None, "more": 1}, (Factor("gpu", False),)),
    ],
)
def test_factors_are_one_or_many_and_their_advice_is_kept_as_it_came(answer: Any, expected: tuple[Factor, ...]) -> None:
    assert factors(body(answer)) == expected


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "its answer is missing or null; an object"),
        ("gpu", "its answer is a text; an object"),
        ([[]], r"factor \[0\] is an array; an object"),
        ({"advice": 1}, "`topic` of its answer is missing or null; a text"),
        ({"topic": " ", "advice": 1}, "`topic` of its answer is an empty text; a text"),
        ({"topic": 1, "advice": 1}, "`topic` of its answer is the number 1; a text"),
        ([{"topic": "a", "advice": 1}, {"topic": "b"}], r"`advice` of factor \[1\] is missing"),
        ({"topic": "a", "advice": 1, "reason": []}, "`reason` of its answer is an array; a text"),
    ],
)
def test_an_error_names_the_index_of_an_invalid_factor(answer: Any, words: str) -> None:
    with pytest.raises(BadAnswer, match=words):
        factors(body(answer))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"decision": "pass"}, GateAnswer(Decision.PASS)),
        ({"decision": "stop", "reason": "no"}, GateAnswer(Decision.STOP, "no")),
        ({"decision": "suspend"}, GateAnswer(Decision.SUSPEND)),
        ({"decision": "suspend", "suspendForSeconds": 5}, GateAnswer(Decision.SUSPEND, "", 5.0)),
        (
            {"decision": "suspend", "suspendForSeconds": 0.5, "onTimeout": "resume"},
            GateAnswer(Decision.SUSPEND, "", 0.5, OnTimeout.RESUME),
        ),
        (
            {"decision": "suspend", "askAgainAfterSeconds": MAX_SECONDS},
            GateAnswer(Decision.SUSPEND, ask_again_after_seconds=MAX_SECONDS),
        ),
        ({"decision": "pass", "suspendForSeconds": None, "onTimeout": None}, GateAnswer(Decision.PASS)),
    ],
)
def test_a_gate_decides(answer: Any, expected: GateAnswer) -> None:
    assert gate(body(answer)) == expected


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ([], "its answer is an array; an object with `decision` was expected"),
        ({}, "`decision` is missing or null; pass, suspend, stop"),
        ({"decision": "Pass"}, "`decision` is 'Pass'; pass, suspend, stop"),
        ({"decision": "maybe"}, "`decision` is 'maybe'"),
        ({"decision": ["pass"]}, "`decision` is an array"),
        ({"decision": True}, "`decision` is the boolean true"),
        ({"decision": "pass", "reason": 1}, "`reason` of its answer is the number 1"),
        ({"decision": "pass", "suspendForSeconds": 5}, "go with 'suspend', not with 'pass'"),
        ({"decision": "suspend", "suspendForSeconds": 5, "askAgainAfterSeconds": 5}, "exclude each other"),
        ({"decision": "suspend", "onTimeout": "stop"}, "`onTimeout` goes with `suspendForSeconds`"),
        ({"decision": "suspend", "suspendForSeconds": 5, "onTimeout": "wait"}, "`onTimeout` is 'wait'; stop, resume"),
        ({"decision": "suspend", "suspendForSeconds": 0}, "`suspendForSeconds` is the number 0"),
        ({"decision": "suspend", "suspendForSeconds": -1}, "`suspendForSeconds` is the number -1"),
        ({"decision": "suspend", "suspendForSeconds": True}, "`suspendForSeconds` is the boolean true"),
        ({"decision": "suspend", "suspendForSeconds": "5"}, "`suspendForSeconds` is a text"),
        ({"decision": "suspend", "askAgainAfterSeconds": MAX_SECONDS + 1}, "`askAgainAfterSeconds` is the number"),
        ({"decision": "suspend", "askAgainAfterSeconds": 10**400}, "`askAgainAfterSeconds` is a huge number"),
    ],
)
def test_an_invalid_gate_answer_is_refused_with_what_was_expected(answer: Any, words: str) -> None:
    with pytest.raises(BadAnswer, match=words):
        gate(body(answer))


def test_a_taskset_is_an_object() -> None:
    assert taskset(b'{"kind": "TaskSet"}') == {"kind": "TaskSet"}


@pytest.mark.parametrize("answer", [None, [], "TaskSet", 1, True])
def test_a_taskset_that_is_no_object_is_refused(answer: Any) -> None:
    with pytest.raises(BadAnswer, match="a TaskSet was expected"):
        taskset(body(answer))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"OK", Acknowledgement.OK),
        (b" ok\r\n", Acknowledgement.OK),
        (b"\xef\xbb\xbfOK\r\n", Acknowledgement.OK),
        (b"\xef\xbb\xbfre", Acknowledgement.RETRY),
        (b"Re", Acknowledgement.RETRY),
        (b"\tEX ", Acknowledgement.EXCEPTION),
    ],
)
def test_an_acknowledgement_is_read_whatever_its_case(answer: bytes, expected: Acknowledgement) -> None:
    assert acknowledgement(answer) is expected


@pytest.mark.parametrize("answer", [b"", b"O K", b"OKAY", b'"OK"', b"\xff", b"<html>" + b"x" * 10_000])
def test_any_other_acknowledgement_is_refused_with_a_short_message(answer: bytes) -> None:
    with pytest.raises(BadAnswer, match="OK, RE or EX was expected") as caught:
        acknowledgement(answer)
    assert len(caught.value.cause) < 300
