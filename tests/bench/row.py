"""`python -m tests.bench.row NAME FILE`: `scripts.benchmarks NAME --quick`, which writes its line into the file.

Its processes are forked from one that has imported their modules, as those of other tests are (`tests/preloaded.py`): to import
them takes more CPU time than all else in a row of so few samples.
"""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
import time
from contextlib import redirect_stdout
from pathlib import Path
from typing import cast

from pipeline_core.common.imports import UNUSED
from pipeline_up import supervisor
from tests import preloaded

FORKED = ("workers", "gunicorn", "celery", "scripts.benchmarks.plugins")


class Adopted:
    """A child of this process that `subprocess` has not started, as the supervisor sees one."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def wait(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def fork_children() -> None:
    """Let the supervisor fork processes instead of starting them by their commands, wherever that is the same."""
    origin = preloaded.origin_of_children()

    class Child(supervisor.Child):
        def spawn(self, environment: dict[str, str]) -> int:
            words = self.service.argv
            if [sys.executable, "-m"] != list(words[:2]) or words[2] not in FORKED:
                return super().spawn(environment)
            with self.log.open("ab") as log:
                pid = origin.fork(words[2:], environment, log, self.service.pass_fds)
            self.process = cast("subprocess.Popen[bytes]", Adopted(pid))
            self.ready = False
            self.started_at = time.monotonic()
            return pid

    supervisor.Child = Child  # type: ignore[misc]


def main(name: str, file: Path) -> None:
    fork_children()
    # Processes of the service can do without these; the benchmarks need parts of the command line, which cannot.
    for unused in UNUSED:
        if sys.modules.get(unused, sys) is None:
            del sys.modules[unused]
    sys.argv[1:] = [name, "--quick"]
    with file.open("w") as output, redirect_stdout(output):
        runpy.run_module("scripts.benchmarks", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
