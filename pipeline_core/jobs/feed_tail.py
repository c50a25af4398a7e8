"""The end of the feed as one process sees it, for readers that wait for what comes next.

While somebody waits, one thread looks for it, for all of them: with one statement where nothing is new, and else by reading it
once. It looks less often while much is new, since each look that finds something is a request of everybody who waits. Nobody
sends it wake-ups: so a commit costs nothing more, and none can be lost.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import structlog

from pipeline_core.auth.actor import SYSTEM, Actor
from pipeline_core.database import connected
from pipeline_core.database.models import FeedKind
from pipeline_core.errors import PipelineError
from pipeline_core.jobs import feed
from pipeline_core.jobs.feed import Entry, Feed
from pipeline_core.runtime import part

log = structlog.get_logger(__name__)

LOOK_SECONDS = 0.4
"""How long it is from one look to the next."""
BUSY_ENTRIES_PER_SECOND = 150
"""While so many come, or more, the pause is longer the more readers wait. While fewer come, it is shorter in proportion."""
SECONDS_FOR_EACH, MAX_LOOK_SECONDS = 0.08, 2.0
"""What each reader that waits in this process adds to that pause, and the longest one: to answer it takes a twentieth of that."""
ERROR_SECONDS = 1.0
"""The pause after a look that failed."""
LINGER_SECONDS = 3.0
"""How long the thread goes on when nobody waits: a reader asks again at once."""
READ_AT_ONCE = 2_000
MAX_PAGES = 64
"""How many different pages are kept until there is something new."""
KEPT_ENTRIES = 5_000
"""How many of the newest entries are kept. Readers that are further behind read the database."""
CHECK_SECONDS = 1.0
"""How often a reader that waits looks whether its client has gone."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """All entries after the position `floor`, up to `top`."""

    floor: int
    top: int
    entries: Sequence[Entry] = ()

    def after(self, new: Feed) -> _Seen:
        entries = [*self.entries, *new.entries]
        if len(entries) <= KEPT_ENTRIES:
            return _Seen(self.floor, new.next, entries)
        kept = entries[-KEPT_ENTRIES:]
        return _Seen(entries[-KEPT_ENTRIES - 1].position, new.next, kept)

    def read(self, actor: Actor, after: int, limit: int, kinds: Collection[FeedKind]) -> Feed:
        first = bisect_right(self.entries, after, key=lambda entry: entry.position)
        found: list[Entry] = []
        for entry in self.entries[first:]:
            if entry.kind in kinds and entry.is_for(actor):
                found.append(entry)
                if len(found) == limit:
                    return Feed(found, entry.position)
        return Feed(found, max(after, self.top))


class FeedTail:
    """What this process has seen of the feed's end lately. Used by many threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting = 0
        self._thread: threading.Thread | None = None
        self._seen: _Seen | None = None
        self._looked_at = 0.0
        self._error: PipelineError | None = None
        self._closed = False
        self._pages_lock = threading.Lock()
        self._pages: dict[tuple[object, ...], Feed] = {}

    def read_or_wait(
        self,
        actor: Actor,
        *,
        after: int,
        limit: int,
        kinds: Collection[FeedKind],
        seconds: float,
        is_gone: Callable[[], bool],
    ) -> Feed:
        """As `feed.read`; if there is nothing, waits for something until so many `seconds` have passed, the reader `is_gone`,
        or the process ends. Raises Unavailable, also when the database goes away meanwhile."""
        until = time.monotonic() + seconds
        with self._changed:
            self._waiting += 1
            self._start()
        try:
            found = self._read(actor, after, limit, kinds)
            while not found.entries and self._wait(found.next, until, is_gone):
                found = self._read(actor, found.next, limit, kinds)
            return found
        finally:
            with self._changed:
                self._waiting -= 1

    def close(self) -> None:
        """Let nobody wait any more, and end the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            thread = self._thread
        if thread:
            thread.join(CHECK_SECONDS)

    def _wait(self, after: int, until: float, is_gone: Callable[[], bool]) -> bool:
        """Whether there is something after this position; False when the wait is over."""
        while not is_gone():
            with self._changed:
                if self._error:
                    raise self._error
                if self._seen and self._seen.top > after:
                    return True
                left = until - time.monotonic()
                if left <= 0 or self._closed:
                    return False
                self._changed.wait(min(left, CHECK_SECONDS))
        return False

    def _read(self, actor: Actor, after: int, limit: int, kinds: Collection[FeedKind]) -> Feed:
        seen = self._seen
        if seen is None or after < seen.floor:
            return feed.read(actor, after=after, limit=limit, kinds=kinds)
        key = (seen.top, after, limit, *sorted(kinds), actor.name if actor.own_only else None)
        # Readers that go on from the same place are given the same page, which is made once.
        with self._pages_lock:
            if key not in self._pages:
                if len(self._pages) == MAX_PAGES or any(page[0] != seen.top for page in self._pages):
                    self._pages.clear()
                self._pages[key] = seen.read(actor, after, limit, kinds)
                _ = self._pages[key].json
            return self._pages[key]

    def _start(self) -> None:
        if self._thread is None and not self._closed:
            self._thread = threading.Thread(target=self._look_on, name="feed", daemon=True)
            self._thread.start()

    def _look_on(self) -> None:
        last_wanted = time.monotonic()
        while True:
            seconds = self._look()
            with self._changed:
                if self._waiting:
                    last_wanted = time.monotonic()
                if self._closed or time.monotonic() > last_wanted + LINGER_SECONDS:
                    self._thread, self._seen = None, None
                    return
                self._changed.notify_all()
            self._sleep(seconds)

    def _sleep(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        with self._changed:
            while not self._closed and (left := until - time.monotonic()) > 0:
                self._changed.wait(left)

    def _look(self) -> float:
        """See what is new; how long to wait until the next look."""
        try:
            seen, found = _next(self._seen)
        except PipelineError as error:
            if self._error is None:
                log.warning("the feed is not followed", reason=error.message)
            self._error, self._seen = error, None
            return ERROR_SECONDS
        self._error, self._seen = None, seen
        before, self._looked_at = self._looked_at, time.monotonic()
        return pause(found, self._looked_at - before, self._waiting)


def pause(found: int, seconds: float, waiting: int) -> float:
    """The seconds from a look to the next one, while so many readers wait. It found so many entries, so many `seconds` after the
    look before."""
    if found == READ_AT_ONCE:
        return 0.0
    if not found:
        return LOOK_SECONDS
    busy = min(found / seconds / BUSY_ENTRIES_PER_SECOND, 1.0)
    return max(LOOK_SECONDS, busy * min(waiting * SECONDS_FOR_EACH, MAX_LOOK_SECONDS))


def _next(seen: _Seen | None) -> tuple[_Seen, int]:
    """What is seen after a look, and how many entries are new. Raises Unavailable."""
    if seen is None:
        latest = feed.latest()
        return _Seen(latest, latest), 0
    with connected() as connection:
        if not feed.is_beyond(connection, seen.top):
            return seen, 0
    new = feed.read(SYSTEM, after=seen.top, limit=READ_AT_ONCE)
    return seen.after(new), len(new.entries)


@part(close=FeedTail.close)
def feed_tail() -> FeedTail:
    """This process's view of the feed's end."""
    return FeedTail()
