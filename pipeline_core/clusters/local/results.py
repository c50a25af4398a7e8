"""What containers left behind, read from their files. The processes could do to these whatever they liked, so nothing is
taken for granted: neither that they are files, nor how long they are."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator

from pipeline_core.clusters.base import MAX_METRICS, MAX_OUTPUT, METRICS_FILE, OUTPUT_FILE, Result
from pipeline_core.clusters.local.files import BOUND, UNKNOWN, AttemptFiles
from pipeline_core.clusters.local.journal import Key

NOT_COLLECTED = f"{OUTPUT_FILE} and {METRICS_FILE} are not collected on this machine"

_NO_FILE = frozenset({errno.ELOOP, errno.ENXIO, errno.EACCES, errno.EPERM, errno.ENOTDIR})


def read(files: AttemptFiles, keys: Iterable[Key]) -> Iterator[Result]:
    """What these tries, which have ended, left behind. Raises OSError."""
    kind = files.plan.get("results")
    for key in keys:
        if kind == UNKNOWN:
            yield Result(*key, output_problem=NOT_COLLECTED, metrics_problem=NOT_COLLECTED, unknown=True)
        elif kind == BOUND and not (found := _result(files, key)).empty:
            yield found


def _result(files: AttemptFiles, key: Key) -> Result:
    output, output_problem = _first(files, key, OUTPUT_FILE, MAX_OUTPUT)
    metrics, metrics_problem = _first(files, key, METRICS_FILE, MAX_METRICS)
    return Result(*key, output, metrics, output_problem, metrics_problem)


def _first(files: AttemptFiles, key: Key, target: str, limit: int) -> tuple[bytes | None, str]:
    """Of the first container that left something there."""
    found = (_content(path, target, limit) for path in _paths(files, key, target.lstrip("/")))
    return next((one for one in found if one != (None, "")), (None, ""))


def _paths(files: AttemptFiles, key: Key, name: str) -> Iterator[str]:
    for container in files.plan["roles"][key[0]]["containers"]:
        if not container["sidecar"]:
            yield files.result(key, container["name"], name)


def _content(path: str, target: str, limit: int) -> tuple[bytes | None, str]:
    """What a file begins with, at most one byte above the limit, or what is wrong with it; neither when there is nothing."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None, ""
    except OSError as error:
        if error.errno not in _NO_FILE:
            raise
        return None, f"{target} cannot be read: {error.strerror}"
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None, f"{target} is no regular file"
        with open(fd, "rb", closefd=False) as file:
            return file.read(limit + 1) or None, ""
    finally:
        os.close(fd)
