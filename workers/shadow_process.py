"""The process that asks shadows: a child of the worker that keeps it, at the lowest priority, while there are shadows.

It is no thread of that worker: one of low priority would keep the interpreter from all others whenever the machine is busy.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import structlog

from pipeline_core.common import log as logs
from pipeline_core.database import transaction
from pipeline_core.errors import PipelineError
from pipeline_core.features import snapshot
from pipeline_core.settings import settings
from workers import processes
from workers.shadows import LOOK_SECONDS, ShadowWorker

log = structlog.get_logger(__name__)

LEAST_PRIORITY = 19
"""The nice value of the process, which takes only what nobody else wants of the CPU."""
LINGER_SECONDS = 600.0
"""How long it stays when there is no shadow any more."""
RESTART_SECONDS = 5.0
"""The pause until another one is started for one that has ended by itself."""
END_SECONDS = 10.0
"""How long the end of its standard input may take to end it; then it is killed."""


class ShadowProcess:
    """Keeps the process, until `stop` is called."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = threading.Event()
        self._wanted_until = 0.0

    def run(self) -> None:
        """Look each LOOK_SECONDS whether there are shadows, and start and end the process accordingly."""
        pause = 0.0
        try:
            while not self._stopped.wait(pause):
                pause = self._look()
        finally:
            self._end()

    def stop(self) -> None:
        """Let `run` end the process and return."""
        self._stopped.set()

    def _look(self) -> float:
        """Returns the pause until the next look."""
        if self._process and (status := self._process.poll()) is not None:
            log.error("the process that asks shadows has ended", status=status)
            self._end()
            return RESTART_SECONDS
        try:
            with transaction() as session:
                wanted = snapshot.current(session).has_shadows
            if wanted:
                self._wanted_until = time.monotonic() + LINGER_SECONDS
                self._process = self._process or _start()
            elif time.monotonic() >= self._wanted_until:
                self._end()
        except (PipelineError, OSError) as error:
            log.warning("it is not known whether there are shadows, or they cannot be asked", error=str(error))
        return LOOK_SECONDS

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _start() -> subprocess.Popen[bytes]:
    process = subprocess.Popen(processes.shadows(), stdin=subprocess.PIPE)
    os.setpriority(os.PRIO_PROCESS, process.pid, LEAST_PRIORITY)
    return process


def main() -> int:
    """Ask shadows until the standard input ends, as it does with the process that holds the other end. Returns the exit code."""
    logs.configure(settings())
    # A signal of the terminal is for the worker, whose end is the end of this process too.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    worker = ShadowWorker()
    threading.Thread(target=_stop_at_the_end, args=(worker,), name="standard-input", daemon=True).start()
    worker.run()
    return 0


def _stop_at_the_end(worker: ShadowWorker) -> None:
    sys.stdin.buffer.read()
    worker.stop()
