"""Where somebody has come to in the logs of a job, so that reading goes on from there without lost or repeated lines."""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from pipeline_core.clusters.base import LogLine
from pipeline_core.clusters.logs import DISORDER

MAX_BYTES = 1024 * 1024
"""How large a cursor may be when it is unpacked."""
MAX_TEXT = 3500
"""How long the text of a cursor may be: servers refuse requests whose first line has more than 4,094 characters."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class LogCursor:
    """By the origin of lines, a time in whole seconds and how many lines since then were read; all before that time were."""

    places: Mapping[str, tuple[datetime, int]] = field(default_factory=dict)

    def __str__(self) -> str:
        """The text of the cursor; empty, which stands for the first line of all, where it would be too long for a request."""
        origins = sorted(self.places)
        seconds = [(self.places[origin][0] - _EPOCH) // _SECOND for origin in origins]
        last = max(seconds, default=0)
        # Columns of small numbers take half the room that pairs by origin would.
        packed = [last, origins, [last - second for second in seconds], [self.places[origin][1] for origin in origins]]
        raw = zlib.compress(json.dumps(packed, separators=(",", ":")).encode(), zlib.Z_BEST_COMPRESSION)
        text = base64.urlsafe_b64encode(raw).decode().rstrip("=")
        return text if len(text) <= MAX_TEXT else ""

    @classmethod
    def of(cls, text: str) -> LogCursor:
        """The cursor of a text. Raises ValueError for one that is none."""
        if not text:
            return cls()
        try:
            raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
            last, origins, befores, counts = json.loads(zlib.decompressobj().decompress(raw, MAX_BYTES))
            return cls(
                {
                    str(origin): (_EPOCH + (int(last) - int(before)) * _SECOND, int(count))
                    for origin, before, count in zip(origins, befores, counts, strict=True)
                }
            )
        except (binascii.Error, zlib.error, AttributeError, TypeError, OverflowError, ValueError) as error:
            raise ValueError("it is no cursor") from error


@dataclass(slots=True)
class _Place:
    """What was read of one origin lately: the times of the lines since the last whole second that is older than the newest line
    by DISORDER."""

    newest: datetime
    times: deque[datetime] = field(default_factory=deque)
    is_sorted: bool = True

    def note(self, moment: datetime) -> None:
        if self.times and moment < self.times[-1]:
            self.is_sorted = False
        self.newest = max(self.newest, moment)
        self.times.append(moment)
        while self.times[0] < self.since:
            self.times.popleft()

    @property
    def since(self) -> datetime:
        return (self.newest - DISORDER).replace(microsecond=0)

    @property
    def count(self) -> int:
        since = self.since
        return len(self.times) if self.is_sorted else sum(moment >= since for moment in self.times)


class LogProgress:
    """What was read of a job's logs. Starts after the cursor of an earlier reading, whose lines are skipped."""

    def __init__(self, start: LogCursor) -> None:
        self._start = start
        self._left = {origin: count for origin, (_, count) in start.places.items()}
        self._places: dict[str, _Place] = {}

    def is_new(self, line: LogLine) -> bool:
        """Note a line as read; whether it was not read before. The lines of an origin come in their order.

        A line that is still open is not noted: after the cursor it comes again, as a whole.
        """
        since, _ = self._start.places.get(line.origin, (None, 0))
        if since is not None and line.time < since and not self._has_come_to(line.origin):
            return False
        is_new = not self._left.get(line.origin)
        if line.open:
            return is_new
        if not is_new:
            self._left[line.origin] -= 1
        self._places.setdefault(line.origin, _Place(line.time)).note(line.time)
        return is_new

    @property
    def cursor(self) -> LogCursor:
        """Up to where all was read."""
        reached = {
            origin: (place.since, place.count)
            for origin, place in self._places.items()
            # What the cursor covers has not all come again yet.
            if not self._left.get(origin)
        }
        return LogCursor({**self._start.places, **reached})

    def _has_come_to(self, origin: str) -> bool:
        """Whether all lines that were read before have come again."""
        return origin in self._places and not self._left.get(origin)
