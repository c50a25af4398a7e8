"""Places: which subscriber's next call a hook worker may start, so that no subscriber, feature or owner holds up the others.

A call holds a place until it ends. A subscriber is slow while one of its calls has taken SLOW_SECONDS, and after such a call
until it answers in less. All slow ones together have half of the places; what they hold beyond that, because they have just
become slow, does not count against the others. So however many subscribers are slow, those that answer find places.

A slow one that answered the last time may have been slow only once, and the half may be held by others that never answer. So
it may have one call beyond the half, as a trial; there is an eighth more places for trials.

This module decides and nothing else: it starts no threads and reads no clock.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

SLOW_SECONDS = 1.0
"""A call that has taken so long makes its subscriber slow."""
BATCH = 32
"""How many deliveries to one subscriber are claimed ahead, as long as it answers and is not slow."""
OVERFLOW = 32
"""All calls together are at most so many times the places: what remains when hundreds of subscribers become slow at once."""


@dataclass(frozen=True, slots=True)
class Subscriber:
    """Who is called, and whose shares its calls count against; `owner` is the user that the feature belongs to."""

    key: str
    feature: str
    owner: str


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A call that holds a place; `started` is a reading of the clock, in seconds, `trial` whether the place is one for trials."""

    subscriber: Subscriber
    started: float
    trial: bool


@dataclass(slots=True)
class _Calls:
    """The calls of one subscriber. `answering` says whether its last one was answered, `slow` whether it was slow."""

    held: list[Call] = field(default_factory=list)
    answering: bool = False
    slow: bool = False
    begun: int = 0

    def slow_at(self, now: float) -> bool:
        return self.slow or bool(self.held and now - self.held[0].started >= SLOW_SECONDS)


class Places:
    """The places of one worker. `total` is their number, `each` how many calls one subscriber may have at a time.

    All times are readings of one clock, in seconds.
    """

    def __init__(self, total: int, each: int) -> None:
        self._total = total
        self._for_slow = max(total // 2, 1)
        self._for_trials = max(total // 8, 1)
        self._trials = 0
        self._each = each
        self._calls: defaultdict[str, _Calls] = defaultdict(_Calls)
        self._shares: Counter[tuple[str, str]] = Counter()
        self._begun = 0
        self.held = 0
        """How many calls there are."""

    @property
    def most(self) -> int:
        """How many calls there are at most at any time."""
        return self._total * OVERFLOW

    def begin(self, subscriber: Subscriber, now: float) -> Call:
        """Let a call hold a place."""
        calls = self._calls[subscriber.key]
        call = Call(subscriber, now, trial=calls.slow_at(now) and self._held_by_slow(now) >= self._for_slow)
        self._trials += call.trial
        calls.held.append(call)
        self._begun += 1
        calls.begun = self._begun
        self.held += 1
        self._shares.update(_shares(subscriber))
        return call

    def end(self, call: Call, now: float, *, answered: bool | None) -> None:
        """Free the call's place; `answered` says whether the subscriber answered in time, None that it was not asked."""
        calls = self._calls[call.subscriber.key]
        calls.held.remove(call)
        self._trials -= call.trial
        self.held -= 1
        self._shares.subtract(_shares(call.subscriber))
        if now - call.started >= SLOW_SECONDS:
            calls.slow = True
        elif answered:
            calls.slow = False
        if answered is not None:
            calls.answering = answered

    def next(self, waiting: Iterable[Subscriber], now: float) -> Subscriber | None:
        """Which of the subscribers with waiting deliveries may start a call; None when none of them may.

        Those come first whose own calls, and those of their feature and owner, hold less than half of the places; then those
        that are not slow, with the fewest calls, and whose last call was started the longest ago. So nobody holds more than
        half while others wait, and no place stays free while somebody waits for it.
        """
        if self.held >= self.most:
            return None
        by_slow = self._held_by_slow(now)
        free = self.held - self._trials - by_slow < self._total
        free_for_slow = by_slow < self._for_slow
        ranks = {
            subscriber: self._rank(subscriber, calls, slow)
            for subscriber in waiting
            if len((calls := self._of(subscriber.key)).held) < self._most_of(calls)
            and ((free_for_slow or self._may_be_tried(calls)) if (slow := calls.slow_at(now)) else free)
        }
        return min(ranks, key=ranks.__getitem__, default=None)

    def ahead(self, key: str, pending: int, now: float) -> int:
        """How many more deliveries to this subscriber are worth claiming, if so many are claimed and not started.

        One that has not answered yet, or did not the last time, is tried with one call; a slow one gets what can be started
        at once, all others a batch when half of the last one has been started.
        """
        calls = self._of(key)
        if calls.answering and not calls.slow_at(now):
            return BATCH - pending if pending <= BATCH // 2 else 0
        startable = self._most_of(calls) - len(calls.held)
        if calls.slow_at(now):
            startable = min(startable, max(self._for_slow - self._held_by_slow(now), int(self._may_be_tried(calls))))
        return max(startable - pending, 0)

    def _of(self, key: str) -> _Calls:
        return self._calls.get(key) or _Calls()

    def _most_of(self, calls: _Calls) -> int:
        return self._each if calls.answering else 1

    def _may_be_tried(self, calls: _Calls) -> bool:
        return calls.answering and not calls.held and self._trials < self._for_trials

    def _held_by_slow(self, now: float) -> int:
        slow = (calls.held for calls in self._calls.values() if calls.held and calls.slow_at(now))
        return sum(not call.trial for held in slow for call in held)

    def _rank(self, subscriber: Subscriber, calls: _Calls, slow: bool) -> tuple[bool, bool, int, int]:
        largest = max(self._shares[share] for share in _shares(subscriber))
        return 2 * largest >= self._total, slow, len(calls.held), calls.begun


def _shares(subscriber: Subscriber) -> tuple[tuple[str, str], ...]:
    return ("key", subscriber.key), ("feature", subscriber.feature), ("owner", subscriber.owner)
