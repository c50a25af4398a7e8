"""How a process of the service imports its modules: in less time and memory than by itself.

Processes start many times a day, and an idle installation is little more than what its processes have imported. So the entry
of each process imports all that it needs within `lean_imports()`.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

UNUSED = ("rich", "tornado")
"""Packages that libraries import where they are installed, and that no process of the service uses: structlog draws tracebacks
with rich, tenacity waits in tornado's loop."""

LATER = ("opentelemetry",)
"""Packages that libraries import where they are installed, and that a process imports itself if it uses them: redis-py counts its
calls with OpenTelemetry."""


@contextmanager
def lean_imports() -> Iterator[None]:
    """Import without what is UNUSED or imported LATER, and without collecting garbage, of which imports make next to none.

    What was imported is never looked at by the garbage collector again, so that forked processes share its memory. The UNUSED
    packages cannot be imported in this process afterwards, unless they have been before.
    """
    for name in (*UNUSED, *LATER):
        # Documented: a module that is None here cannot be imported.
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]
    gc.disable()
    try:
        yield
    finally:
        for name in LATER:
            if sys.modules.get(name, sys) is None:
                del sys.modules[name]
        gc.freeze()
        gc.enable()
