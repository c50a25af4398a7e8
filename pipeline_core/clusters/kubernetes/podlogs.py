"""The log of one container from the API server, read in parts without losses or repeats."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import urllib3

from pipeline_core.clusters.base import ClusterUnavailable, ReplicaReport
from pipeline_core.clusters.kubernetes.api import READ_SECONDS, ApiError, KubernetesApi, cause
from pipeline_core.clusters.kubernetes.pod_rules import DIAGNOSTICS_BYTES
from pipeline_core.clusters.kubernetes.pod_view import SETTLING_SECONDS, PodView
from pipeline_core.common.clock import now

_STAMP = rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)"
_STAMPED = re.compile(_STAMP + rb" ")
FOLLOW_READ_SECONDS = 600.0
"""For how long a container that is followed may write nothing. It is followed while its pod is being deleted."""
PIECE_BYTES = 16 * 1024
"""The container runtime cuts longer lines into pieces; before Kubernetes 1.27 each piece has its own time."""


GAP = b"[pipeline: lines may be missing here, the node began a new file before they were collected]"


def container_log(
    api: KubernetesApi,
    namespace: str,
    pod: str,
    container: str,
    *,
    previous: bool = False,
    since: str = "",
    tail: int | None = None,
    ended: bool = True,
    follow: bool = False,
) -> Iterator[bytes]:
    """The lines that the cluster still has, each beginning with its time in UTC; none when there is no such log.

    `previous` reads the run before the container's last restart, `since` is a time to the second. A last line without a
    newline is left out unless the run has `ended`: it may not be complete. With `follow`, until the run has ended. Raises
    ClusterUnavailable.
    """
    query: dict[str, Any] = {"container": container, "timestamps": "true"}
    if previous:
        query["previous"] = "true"
    if since:
        query["sinceTime"] = since
    if tail is not None:
        query["tailLines"] = tail
    if follow:
        query["follow"] = "true"
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}/log"
    seconds = FOLLOW_READ_SECONDS if follow else READ_SECONDS
    try:
        with api.open("GET", path, query, accept="*/*", pauses=(), read_seconds=seconds) as response:
            for line in _lines(response, ended):
                # A kubelet that has lost a log answers with a message in its place, which has no time.
                if _STAMPED.match(line):
                    stamp, _, text = line.partition(b" ")
                    yield utc(stamp) + b" " + whole(text)
    except ApiError as error:
        if error.status not in (400, 404):
            raise ClusterUnavailable(f"the log of {pod} cannot be read: {error.message}") from error


def whole(text: bytes) -> bytes:
    """A long line without the times between its pieces."""
    parts = []
    while len(text) > PIECE_BYTES and (inner := _STAMPED.match(text, PIECE_BYTES)):
        parts.append(text[:PIECE_BYTES])
        text = text[inner.end() :]
    return b"".join([*parts, text])


def utc(stamp: bytes) -> bytes:
    """A time stamp in UTC with all its digits: nodes write local time."""
    if stamp.endswith(b"Z"):
        return stamp
    seconds, zone = stamp[:19].decode(), stamp[-6:].decode()
    moved = datetime.fromisoformat(seconds + zone).astimezone(UTC)
    return moved.strftime("%Y-%m-%dT%H:%M:%S").encode() + stamp[19:-6] + b"Z"


class Resume:
    """The position at which reading a log stopped.

    The API server can continue only from a whole second, so it repeats some lines. And the lines of a container's two output
    streams may be a little out of order, so the next reading starts one second earlier. It repeats the last line, unless the
    node has begun a new file meanwhile: then others may be lost, and with `mark_gaps`, for a single run, a line says so.
    """

    def __init__(self, *, mark_gaps: bool = False) -> None:
        self._mark_gaps = mark_gaps
        self.count = 0
        """How many lines were read."""
        self._first = b""
        self._last = b""
        self._since = b""
        self._seen: Counter[bytes] = Counter()

    @property
    def since(self) -> str:
        """The time from which to continue; empty before the first line."""
        return self._since.decode() + "Z" if self._since else ""

    def begin(self, moment: datetime) -> None:
        """Start at this time, unless lines have been read."""
        if not self._since:
            self._since = _second(moment.astimezone(UTC))

    def new(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """The lines that were not read before and are not older than the first one read."""
        repeated, since, first = self._seen.copy(), self._since, self._first
        may_lack_lines = self._mark_gaps and bool(repeated)
        for line in lines:
            stamp = line.partition(b" ")[0]
            # Without the Z, fractions of a second sort as text whatever their length.
            if stamp[:19] < since or stamp[:-1] < first:
                continue
            if repeated[stamp]:
                repeated[stamp] -= 1
                may_lack_lines = False
                continue
            if may_lack_lines and stamp[:-1] > max(self._seen)[:-1]:
                may_lack_lines = False
                mark = self._after_last_line()
                self._take(mark)
                yield mark + b" " + GAP
            self._take(stamp)
            yield line

    def _after_last_line(self) -> bytes:
        """A time just after that of the last line: one digit longer, so that no line has it."""
        last = max(self._seen)
        text = last.removesuffix(b"Z")
        return text + (b"" if b"." in text else b".0") + b"1Z"

    def _take(self, stamp: bytes) -> None:
        second = stamp[:19]
        self.count += 1
        self._first = min(self._first or stamp[:-1], stamp[:-1])
        if second > self._last:
            self._last = second
            before = _second(datetime.fromisoformat(second.decode()) - timedelta(seconds=1))
            self._since = max(self._since, before)
            self._seen = Counter({seen: count for seen, count in self._seen.items() if seen[:19] >= self._since})
        if second >= self._since:
            self._seen[stamp] += 1


def _second(moment: datetime) -> bytes:
    return moment.strftime("%Y-%m-%dT%H:%M:%S").encode()


def _lines(response: urllib3.BaseHTTPResponse, ended: bool) -> Iterator[bytes]:
    rest = b""
    try:
        for block in response.stream(64 * 1024):
            *lines, rest = (rest + block).split(b"\n")
            yield from lines
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise ClusterUnavailable(f"the connection to the cluster broke: {cause(error)}") from error
    if rest and ended:
        yield rest


MESSAGE_LINES = 80
"""A termination message that falls back to the log has at most so many lines.
https://kubernetes.io/docs/tasks/debug/debug-application/determine-reason-pod-failure/"""
TAIL_LINES = 500


def message_is_poor(report: ReplicaReport, pod: Mapping[str, Any]) -> bool:
    """Whether the termination message of a failed container was cut, or is missing and does not fall back to the log."""
    if report.diagnostics:
        return report.diagnostics.count("\n") >= MESSAGE_LINES - 1
    failed = PodView(pod, now()).failed
    containers = (*(pod["spec"].get("initContainers") or []), *pod["spec"]["containers"])
    return failed is not None and not any(
        one["name"] == failed.name and one.get("terminationMessagePolicy") == "FallbackToLogsOnError"
        for one in containers
    )


def end_of_log(api: KubernetesApi, pod: Mapping[str, Any]) -> str:
    """The end of the log of the first failed container; empty when it cannot be read. Waits until it is complete."""
    view = PodView(pod, now())
    failed = view.failed
    if failed is None:
        return ""
    if not view.settled:
        time.sleep(SETTLING_SECONDS)
    metadata = view.metadata
    try:
        lines = container_log(api, metadata["namespace"], metadata["name"], failed.name, tail=TAIL_LINES)
        text = b"\n".join(line.partition(b" ")[2] for line in lines)
    except ClusterUnavailable:
        return ""
    return text[-DIAGNOSTICS_BYTES:].decode(errors="ignore")
