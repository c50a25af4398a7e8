"""One container's log from the API server, in pieces that fit together without losses or repeats."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import urllib3

from pipeline_core.clusters.base import ClusterUnavailable, ReplicaReport
from pipeline_core.clusters.kubernetes.api import Api, ApiError
from pipeline_core.clusters.kubernetes.pods import SETTLING_SECONDS, PodView
from pipeline_core.clusters.kubernetes.rules import DIAGNOSTICS_BYTES
from pipeline_core.common.clock import now

_STAMP = rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)"
_STAMPED = re.compile(_STAMP + rb" ")
PIECE_BYTES = 16 * 1024
"""The container runtime cuts longer lines into pieces; before 1.27 each piece came with a time of its own."""


def container_log(
    api: Api,
    namespace: str,
    pod: str,
    container: str,
    *,
    previous: bool = False,
    since: str = "",
    tail: int | None = None,
    ended: bool = True,
) -> Iterator[bytes]:
    """The lines that the cluster still has, each with its time (UTC) in front; none when there is no such log.

    `previous` is the run before the container's last restart, `since` a time to the second. A last line without its
    newline counts only where the run has `ended`: otherwise it is on its way yet. Raises ClusterUnavailable.
    """
    query: dict[str, Any] = {"container": container, "timestamps": "true"}
    if previous:
        query["previous"] = "true"
    if since:
        query["sinceTime"] = since
    if tail is not None:
        query["tailLines"] = tail
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}/log"
    try:
        with api.open("GET", path, query, accept="*/*", pauses=()) as response:
            for line in _lines(response, ended):
                # A kubelet that has lost a log says so in the place of the log, without a time.
                if _STAMPED.match(line):
                    stamp, _, text = line.partition(b" ")
                    yield utc(stamp) + b" " + whole(text)
    except ApiError as error:
        if error.status not in (400, 404):
            raise ClusterUnavailable(f"the log of {pod} cannot be read: {error.message}") from error


def whole(text: bytes) -> bytes:
    """A long line without the times that stand between its pieces."""
    parts = []
    while len(text) > PIECE_BYTES and (inner := _STAMPED.match(text, PIECE_BYTES)):
        parts.append(text[:PIECE_BYTES])
        text = text[inner.end() :]
    return b"".join([*parts, text])


def utc(stamp: bytes) -> bytes:
    """The same time in UTC, no digit of it lost: nodes write their own zone's."""
    if stamp.endswith(b"Z"):
        return stamp
    seconds, zone = stamp[:19].decode(), stamp[-6:].decode()
    moved = datetime.fromisoformat(seconds + zone).astimezone(UTC)
    return moved.strftime("%Y-%m-%dT%H:%M:%S").encode() + stamp[19:-6] + b"Z"


class Resume:
    """Where reading a log stopped.

    The API server knows where to go on only to the second, so it repeats some lines. And lines of the two outputs of a
    container may stand in the log a little out of order, so what is asked for begins a second earlier.
    """

    def __init__(self) -> None:
        self.count = 0
        """How many lines were read."""
        self._first = b""
        self._last = b""
        self._since = b""
        self._seen: Counter[bytes] = Counter()

    @property
    def since(self) -> str:
        """What to ask for; empty in the beginning."""
        return self._since.decode() + "Z" if self._since else ""

    def begin(self, moment: datetime) -> None:
        """Leave out what was before, when nothing has been read yet."""
        if not self._since:
            self._since = _second(moment.astimezone(UTC))

    def new(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """Those of the lines that were not there before, and are not older than all that were."""
        known, since, first = self._seen.copy(), self._since, self._first
        for line in lines:
            stamp = line.partition(b" ")[0]
            # Without the Z, fractions of a second sort as text whatever their length.
            if stamp[:19] < since or stamp[:-1] < first:
                continue
            if known[stamp]:
                known[stamp] -= 1
                continue
            self._take(stamp)
            yield line

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
        raise ClusterUnavailable(f"the connection to the cluster broke: {error}") from error
    if rest and ended:
        yield rest


MESSAGE_LINES = 80
"""A termination message that falls back to the log has at most so many lines.
https://kubernetes.io/docs/tasks/debug/debug-application/determine-reason-pod-failure/"""
TAIL_LINES = 500


def tells_little(report: ReplicaReport, pod: Mapping[str, Any]) -> bool:
    """Whether a failed container's message was cut by its lines, or is none where it would not be the end of the log."""
    if report.diagnostics:
        return report.diagnostics.count("\n") >= MESSAGE_LINES - 1
    failed = PodView(pod, now()).failed
    containers = (*(pod["spec"].get("initContainers") or []), *pod["spec"]["containers"])
    return failed is not None and not any(
        one["name"] == failed.name and one.get("terminationMessagePolicy") == "FallbackToLogsOnError"
        for one in containers
    )


def end_of_log(api: Api, pod: Mapping[str, Any]) -> str:
    """The end of the first failed container's log; empty when there is none to be had. Waits until it is complete."""
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
