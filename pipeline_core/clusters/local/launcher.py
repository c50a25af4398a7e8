"""Starting a supervisor as a process that belongs to nobody."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pipeline_core

_ROOT = str(Path(pipeline_core.__file__).parents[1])
_PROGRAM = "; ".join(
    (
        "import sys",
        f"sys.path.insert(0, {_ROOT!r})",
        "from pipeline_core.clusters.local.supervisor import main",
        "main(sys.argv[1])",
    )
)


def start_supervisor(directory: Path) -> None:
    """Start a supervisor for an attempt's directory and return at once; it may find that there is one already.

    A shell stands between, so that the supervisor is nobody's child: the service must neither wait for it nor be its
    grave. Of the environment it gets what a program needs to run, of open files none.
    """
    log = str(directory / "supervisor.log")
    pid = os.posix_spawn(
        "/bin/sh",
        ["sh", "-c", 'cd / && exec "$@" &', "sh", sys.executable, "-I", "-S", "-c", _PROGRAM, str(directory)],
        {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8"},
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
        ],
        setsid=True,
        setsigmask=[],
    )
    os.waitpid(pid, 0)
