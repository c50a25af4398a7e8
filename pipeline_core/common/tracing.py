"""Traces: the context of a trace, and spans in it.

A context is the value of a header `traceparent` (W3C Trace Context, version 00), or empty. Each job has the one under which it
was submitted, and all that is done for the job belongs to that trace, whichever process does it and however often.

With PIPELINE_OTEL spans are made and exported (`otel`, which is imported only then). Without it nothing is made: a client's
context is passed on as it came, as W3C asks of whoever takes no part in a trace.
"""

from __future__ import annotations

import re
from contextvars import ContextVar
from enum import Enum, auto
from importlib import import_module
from types import TracebackType
from typing import Protocol, Self

import structlog

from pipeline_core.runtime import part
from pipeline_core.settings import settings

HEADER = "traceparent"
_FORM = re.compile("00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


class Kind(Enum):
    """What a span stands for: a request that is served, one that is made, or work within the service."""

    SERVER = auto()
    CLIENT = auto()
    INTERNAL = auto()


class Span(Protocol):
    """Something that is done for a while. `traceparent` is the context of what is done within it."""

    traceparent: str

    def set(self, name: str, value: str | int) -> None:
        """Set an attribute."""

    def link(self, traceparent: str) -> None:
        """Note that it concerns another trace. Nothing, if that is empty."""

    def end(self) -> None:
        """It is done."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Tracer(Protocol):
    """Makes spans, and exports them."""

    def start(self, name: str, parent: str, kind: Kind, attributes: dict[str, str | int]) -> Span:
        """A span that begins now, in the context `parent`; of a new trace when that is empty."""

    def close(self) -> None:
        """Export what has ended."""


class NoSpan:
    """Stands for a span where none is made: what is done within it is in the context that it was given."""

    __slots__ = ("traceparent",)

    def __init__(self, traceparent: str) -> None:
        self.traceparent = traceparent

    def set(self, name: str, value: str | int) -> None:
        pass

    def link(self, traceparent: str) -> None:
        pass

    def end(self) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


def _close(tracer: Tracer | None) -> None:
    if tracer:
        tracer.close()


@part(close=_close)
def tracer() -> Tracer | None:
    """This process's tracer; None without PIPELINE_OTEL."""
    if not settings().otel:
        return None
    made: Tracer = import_module("pipeline_core.common.otel").make()
    return made


def span(name: str, parent: str, kind: Kind = Kind.INTERNAL, **attributes: str | int) -> Span:
    """A span in the context `parent`, to be used as a context manager or ended; none is made when that is empty."""
    made = tracer()
    return made.start(name, parent, kind, attributes) if made and parent else NoSpan(parent)


def root(name: str, parent: str, kind: Kind = Kind.INTERNAL, **attributes: str | int) -> Span:
    """The same, but it begins a trace when `parent` is empty."""
    made = tracer()
    return made.start(name, parent, kind, attributes) if made else NoSpan(parent)


def parse(header: str) -> str:
    """The context in a header `traceparent`; empty when it is not valid."""
    return header if header and _FORM.fullmatch(header) else ""


def trace_id(traceparent: str) -> str:
    """The ID of the trace: 32 hexadecimal digits; empty without a context."""
    return traceparent[3:35]


_current: ContextVar[Span] = ContextVar("span", default=NoSpan(""))  # noqa: B039 - it has no state


def current() -> str:
    """The context of the request that this thread serves; empty if there is none."""
    return _current.get().traceparent


def enter(request: Span) -> None:
    """This thread serves a request within this span from now on; its log lines have the trace's ID."""
    _current.set(request)
    bind(request.traceparent)


def link(traceparent: str) -> None:
    """Note that the request that this thread serves concerns another trace as well."""
    _current.get().link(traceparent)


def bind(traceparent: str) -> None:
    """Let the following log lines of this thread have the ID of this trace, and of no other."""
    if traceparent:
        structlog.contextvars.bind_contextvars(trace_id=trace_id(traceparent))
    else:
        structlog.contextvars.unbind_contextvars("trace_id")


def log_fields(traceparent: str) -> dict[str, str]:
    """The fields that a log line has about a trace."""
    return {"trace_id": trace_id(traceparent)} if traceparent else {}
