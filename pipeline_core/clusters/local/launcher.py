"""Starting supervisors as detached processes, and what this machine allows them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import pipeline_core
from pipeline_core.clusters.local.cgroups import Place

_ROOT = str(Path(pipeline_core.__file__).parents[1])


def _python(module: str, call: str) -> list[str]:
    """A command that calls one function of a light module, without site packages and settings."""
    program = f"import sys; sys.path.insert(0, {_ROOT!r}); from pipeline_core.clusters.local import {module}; {call}"
    return [sys.executable, "-I", "-S", "-c", program]


def start_supervisor(directory: Path) -> None:
    """Start a supervisor for the directory of a job attempt and return at once; it exits if there is one already.

    A shell starts it and exits, so that it is no child of this process, which need not reap it and may end before it. It
    inherits no open files, and of the environment only what any program needs.
    """
    log = str(directory / "supervisor.log")
    command = _python("supervisor", "supervisor.main(sys.argv[1])")
    pid = os.posix_spawn(
        "/bin/sh",
        ["sh", "-c", 'cd / && exec "$@" &', "sh", *command, str(directory)],
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


@cache
def mount_problem() -> str:
    """Why processes of this user can have no root directory of their own; empty when they can."""
    with tempfile.TemporaryDirectory(prefix="pipeline-root-") as root:
        return _try([*_python("mounts", "mounts.enter(sys.argv[1], [])"), root])[1]


@cache
def cgroup_place() -> tuple[Place | None, str]:
    """Where this user can make control groups; None, and the reason, when that is nowhere."""
    found, problem = _try(_python("cgroups", "import json; print(json.dumps(cgroups.find()))"))
    return (None, problem) if problem else (json.loads(found), "")


def shortcomings() -> list[str]:
    """What the local cluster cannot do for this user on this machine, one sentence each."""
    limits, mounts = cgroup_place()[1], mount_problem()
    return [
        *(
            [f"Limits of memory and CPU are not enforced: no control groups can be made here: {limits}."]
            if limits
            else []
        ),
        *(
            [
                f"Jobs with volume mounts fail, and /output and /metric.json are not collected: no mount namespaces can be "
                f"made here: {mounts}."
            ]
            if mounts
            else []
        ),
    ]


def _try(command: list[str]) -> tuple[str, str]:
    """The output of a command and, when it fails, the last line of its error output."""
    tried = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    return tried.stdout, "" if tried.returncode == 0 else tried.stderr.strip().rpartition("\n")[2]
