"""One container's log from the API server, in pieces that fit together without losses or repeats."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import urllib3

from pipeline_core.clusters.base import ClusterAway
from pipeline_core.clusters.kubernetes.api import Api, ApiError

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
) -> Iterator[bytes]:
    """The lines that the cluster still has, each with its time (UTC) in front; none when there is no such log.

    `previous` is the run before the container's last restart, `since` a time to the second. Raises ClusterAway.
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
            for line in _lines(response):
                # A kubelet that has lost a log says so in the place of the log, without a time.
                if _STAMPED.match(line):
                    stamp, _, text = line.partition(b" ")
                    yield utc(stamp) + b" " + whole(text)
    except ApiError as error:
        if error.status not in (400, 404):
            raise ClusterAway(f"the log of {pod} cannot be read: {error.message}") from error


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
    """Where reading a log stopped. The API server knows where to go on only to the second, so it repeats some lines."""

    def __init__(self) -> None:
        self._second = b""
        self._seen: Counter[bytes] = Counter()

    @property
    def since(self) -> str:
        """What to ask for; empty in the beginning."""
        return self._second.decode() + "Z" if self._second else ""

    def begin(self, moment: datetime) -> None:
        """Leave out what was before, when nothing has been read yet."""
        if not self._second:
            self._second = moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S").encode()

    def new(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """Those of the lines that were not there before."""
        known, start = self._seen.copy(), self._second
        for line in lines:
            stamp = line.partition(b" ")[0]
            second = stamp[:19]
            if second < start:
                continue
            if known[stamp]:
                known[stamp] -= 1
                continue
            if second > self._second:
                self._second = second
                self._seen.clear()
            if second == self._second:
                self._seen[stamp] += 1
            yield line


def _lines(response: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    rest = b""
    try:
        for block in response.stream(64 * 1024):
            *lines, rest = (rest + block).split(b"\n")
            yield from lines
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise ClusterAway(f"the connection to the cluster broke: {error}") from error
    if rest:
        yield rest
