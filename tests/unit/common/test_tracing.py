from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
import structlog

from pipeline_core.common import tracing
from pipeline_core.common.tracing import NoSpan

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SENT = f"00-{TRACE}-{SPAN}-01"


@pytest.mark.parametrize(
    ("header", "valid"),
    [
        (SENT, True),
        (SENT[:-2] + "00", True),
        ("", False),
        ("on", False),
        (SENT.upper(), False),
        (f"01-{TRACE}-{SPAN}-01", False),
        (f"00-{'0' * 32}-{SPAN}-01", False),
        (f"00-{TRACE}-{'0' * 16}-01", False),
        (f"{SENT}-more", False),
        (f"{SENT}\n", False),
    ],
)
def test_a_context_is_taken_when_it_is_valid(header: str, valid: bool) -> None:
    assert tracing.parse(header) == (header if valid else "")


def test_the_trace_of_a_context() -> None:
    assert tracing.trace_id(SENT) == TRACE
    assert tracing.trace_id("") == ""
    assert tracing.log_fields("") == {}
    assert tracing.log_fields(SENT) == {"trace_id": TRACE}


def test_without_opentelemetry_contexts_are_passed_on_and_nothing_is_imported(
    fresh_runtime: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "opentelemetry"]:
        monkeypatch.delitem(sys.modules, name)
    for made in (tracing.span("stage", SENT, job_id="j"), tracing.root("POST", SENT)):
        with made as span:
            span.set("outcome", "advance")
            span.link(SENT)
        assert span.traceparent == SENT
    assert tracing.root("POST", "").traceparent == ""
    assert [name for name in sys.modules if name.partition(".")[0] == "opentelemetry"] == []


def test_a_request_s_context_holds_until_the_next() -> None:
    tracing.enter(NoSpan(SENT))
    assert tracing.current() == SENT
    assert structlog.contextvars.get_contextvars()["trace_id"] == TRACE
    tracing.enter(NoSpan(""))
    assert tracing.current() == ""
    assert "trace_id" not in structlog.contextvars.get_contextvars()
