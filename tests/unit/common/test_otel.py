from __future__ import annotations

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from pipeline_core.common import tracing
from pipeline_core.common.otel import OtelTracer
from pipeline_core.common.tracing import Kind

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SENT = f"00-{TRACE}-{SPAN}-01"


@pytest.fixture
def exported() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def tracer(exported: InMemorySpanExporter) -> OtelTracer:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exported))
    return OtelTracer(provider)


def test_a_span_continues_the_trace_it_is_given(tracer: OtelTracer, exported: InMemorySpanExporter) -> None:
    with tracer.start("stage gates", SENT, Kind.INTERNAL, {"job_id": "j1"}) as span:
        span.set("pipeline.outcome", "advance")
        span.link(f"00-{'a' * 32}-{'b' * 16}-01")
    assert tracing.parse(span.traceparent) == span.traceparent
    assert tracing.trace_id(span.traceparent) == TRACE
    (only,) = exported.get_finished_spans()
    assert only.parent is not None
    assert f"{only.parent.span_id:016x}" == SPAN
    assert only.attributes == {"pipeline.job_id": "j1", "pipeline.outcome": "advance"}
    assert [f"{link.context.trace_id:032x}" for link in only.links] == ["a" * 32]


def test_without_a_context_a_trace_begins(tracer: OtelTracer, exported: InMemorySpanExporter) -> None:
    tracer.start("POST", "", Kind.SERVER, {}).end()
    (only,) = exported.get_finished_spans()
    assert only.parent is None


def test_what_the_client_does_not_sample_is_not_exported(tracer: OtelTracer, exported: InMemorySpanExporter) -> None:
    span = tracer.start("POST", f"{SENT[:-2]}00", Kind.SERVER, {})
    span.end()
    assert exported.get_finished_spans() == ()
    assert span.traceparent.endswith("-00")


def test_an_exception_is_named_without_its_text(tracer: OtelTracer, exported: InMemorySpanExporter) -> None:
    with pytest.raises(KeyError), tracer.start("stage gates", SENT, Kind.INTERNAL, {}):
        raise KeyError("horse")
    (only,) = exported.get_finished_spans()
    assert (only.status.status_code, only.status.description) == (StatusCode.ERROR, "KeyError")
    assert "horse" not in only.to_json()
