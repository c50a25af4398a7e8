"""Spans of OpenTelemetry, exported by OTLP over HTTP. Imported only with PIPELINE_OTEL.

The endpoint, headers, sampling and batches are configured by OpenTelemetry's own variables, such as OTEL_EXPORTER_OTLP_ENDPOINT,
which its SDK reads.
"""

from __future__ import annotations

import os
from importlib.metadata import version
from types import TracebackType
from typing import Self

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from pipeline_core.common.tracing import Kind

NAME = "pipeline"
PACKAGE = "pipeline-service"
_KINDS = {Kind.SERVER: SpanKind.SERVER, Kind.CLIENT: SpanKind.CLIENT, Kind.INTERNAL: SpanKind.INTERNAL}


class OtelSpan:
    """A span of OpenTelemetry. An exception that leaves its block makes it an error, with the exception's type: its text may have
    secrets."""

    __slots__ = ("_span", "traceparent")

    def __init__(self, span: trace.Span) -> None:
        self._span = span
        context = span.get_span_context()
        self.traceparent = f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"

    def set(self, name: str, value: str | int) -> None:
        self._span.set_attribute(name, value)

    def link(self, traceparent: str) -> None:
        if traceparent:
            self._span.add_link(_context_of(traceparent))

    def end(self) -> None:
        self._span.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._span.set_status(Status(StatusCode.ERROR, kind.__name__))
        self._span.end()


class OtelTracer:
    """Makes spans of OpenTelemetry; a thread of it exports those that have ended, many at a time."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer(NAME)

    def start(self, name: str, parent: str, kind: Kind, attributes: dict[str, str | int]) -> OtelSpan:
        context = Context()
        if parent:
            context = trace.set_span_in_context(NonRecordingSpan(_context_of(parent)), context)
        named = {f"pipeline.{key}": value for key, value in attributes.items()}
        return OtelSpan(self._tracer.start_span(name, context, kind=_KINDS[kind], attributes=named))

    def close(self) -> None:
        self._provider.shutdown()


def _context_of(traceparent: str) -> SpanContext:
    _, trace_id, span_id, flags = traceparent.split("-")
    return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=TraceFlags(int(flags, 16)))


def make() -> OtelTracer:
    """A tracer by OpenTelemetry's variables. Spans that have ended are exported when the process ends, if it is not killed."""
    about: dict[str, str | int] = {
        "service.name": os.environ.get("OTEL_SERVICE_NAME") or NAME,
        "service.version": version(PACKAGE),
        "process.pid": os.getpid(),
    }
    provider = TracerProvider(resource=Resource.create({**about}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return OtelTracer(provider)
