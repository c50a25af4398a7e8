"""Shares: which steps a worker process runs when more are due than it has places.

A place is a thread that runs a step. It is held under keys: the plugins that the step calls at the moment, their features, and
the job's user. A key gets another place while it holds fewer than a multiple of the places that are free (`FACTORS`). So one
plugin alone gets most of the places; the more others come, the less each may hold. Among those that wait, nobody gets a place
who holds more than one that is refused.

A plugin is quick while its last call took less than SLOW_SECONDS and none of its calls has taken longer. All others together,
slow or not called yet, have seven eighths of the places (`SLOW_PART`), of which the shares of each are counted; only the first
call of a plugin that was not called yet may begin beyond that, while more than a sixteenth is free (`UNTRIED_PART`). So whatever
comes, in whatever order, steps with quick plugins or none find places, however many slow plugins there are.

A step that gets no place does not block its thread: its lease is released, and it waits in a list of this process until somebody
leaves a place (`workers.stage_run`). From time to time the last ones of the list are published again, since another process may
have a place for them (`workers.lease_renewal`).
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice, zip_longest

from pipeline_core.features.snapshot import RegisteredPlugin
from pipeline_core.runtime import part
from pipeline_core.settings import settings
from pipeline_core.stages.names import Stage


class Kind(StrEnum):
    """What a place is held for."""

    ALONE = "alone"
    PLUGIN = "plugin"
    CLUSTER = "cluster"
    FEATURE = "feature"
    USER = "user"


FACTORS = {Kind.ALONE: 4, Kind.PLUGIN: 4, Kind.CLUSTER: 4, Kind.FEATURE: 8, Kind.USER: 32}
"""A key gets a place while it holds fewer than so many times the free places: a plugin up to four fifths of all. A feature may
hold more than one of its plugins, and a user more than a feature, so that other plugins find a place beside a slow one."""

LIMITS = {Kind.ALONE: 2}
"""How many places may be held at most under keys of a kind: steps that are tried alone are processes."""

SPARE_PART = 8
"""One of so many threads of a worker is spare: it claims steps and finds out whether they get a place."""

SLOW_PART = 8
"""One of so many places is not for plugins that are slow or were not called yet."""

SLOW_FACTOR = 6
"""Such a plugin gets a place while it holds fewer than so many times those of the places for such plugins that are free: three
quarters of all if there is no other."""

UNTRIED_PART = 16
"""One of so many places is not for the first call of a plugin either."""

SLOW_SECONDS = 1.0
"""A plugin with a call that has taken so long is not quick."""

Key = tuple[Kind, str]


@dataclass(frozen=True, slots=True)
class Waiting:
    """A released step that waits for a place."""

    job_id: str
    epoch: int
    stage: Stage


def places_of(threads: int) -> int:
    """How many places a worker with so many threads has."""
    return max(1, threads - max(1, threads // SPARE_PART))


ALONE = frozenset({(Kind.ALONE, "")})
"""The keys of a step that is tried alone."""


def keys_of(user: str, plugins: Iterable[RegisteredPlugin], *, cluster: bool = False) -> frozenset[Key]:
    """The keys of a step of this user's job that calls these plugins, or launches the job in the cluster."""
    keys: set[Key] = {(Kind.USER, user)}
    if cluster:
        keys = {(Kind.CLUSTER, "")}
    for plugin in plugins:
        keys |= {(Kind.PLUGIN, plugin.key), (Kind.FEATURE, plugin.feature)}
    return frozenset(keys)


@dataclass(slots=True)
class _Calls:
    """The calls of one plugin: when each began, by the step's owner, the earliest first. `quick` says whether the last one that
    ended was, None that none has ended."""

    begun: dict[str, float] = field(default_factory=dict)
    quick: bool | None = None

    def quick_at(self, now: float) -> bool:
        return bool(self.quick) and not self._slow_at(now)

    @property
    def untried(self) -> bool:
        return self.quick is None and not self.begun

    def end(self, owner: str, now: float) -> None:
        self.quick = now - self.begun.pop(owner) < SLOW_SECONDS

    def _slow_at(self, now: float) -> bool:
        return now - next(iter(self.begun.values()), now) >= SLOW_SECONDS


class Shares:
    """The places of one process, who holds them, and which steps wait. Thread-safe; never blocks for long.

    `clock` is a monotonic clock, in seconds.
    """

    def __init__(self, places: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.places = places
        self._clock = clock
        self._calls: defaultdict[Key, _Calls] = defaultdict(_Calls)
        self._held: dict[str, frozenset[Key]] = {}
        self._usage: Counter[Key] = Counter()
        self._waiting: dict[frozenset[Key], deque[Waiting]] = {}
        self._lock = threading.Lock()

    def enter(self, owner: str, keys: frozenset[Key]) -> bool:
        """Take a place under these keys for a step with this owner. If it has a place, its keys are replaced. False: refused,
        and nothing is changed."""
        with self._lock:
            if not self._admission(self._held.get(owner))(keys):
                return False
            self._hold(owner, keys)
            return True

    def answered(self, owner: str, plugin: RegisteredPlugin) -> None:
        """The step no longer calls this plugin. It keeps its place."""
        with self._lock:
            if owner in self._held:
                of_plugin = keys_of("", [plugin]) - keys_of("", [])
                self._hold(owner, self._held[owner] - of_plugin)

    def leave(self, owner: str) -> None:
        """Give the place of a step back, if it has one."""
        with self._lock:
            self._hold(owner, frozenset())
            self._held.pop(owner, None)

    def wait(self, step: Waiting, keys: frozenset[Key]) -> None:
        """Let a released step wait for a place under these keys."""
        with self._lock:
            self._waiting.setdefault(keys, deque()).append(step)

    def next(self) -> Waiting | None:
        """Take a waiting step that would get a place now out of the list: of those, one whose keys hold the fewest places."""
        with self._lock:
            groups = [*filter(self._admission(), self._waiting)]
            if not groups:
                return None
            keys = min(groups, key=self._most_held)
            step = self._waiting[keys].popleft()
            if not self._waiting[keys]:
                del self._waiting[keys]
            return step

    def waiting(self) -> list[Waiting]:
        """All steps that wait."""
        with self._lock:
            return [step for group in self._waiting.values() for step in group]

    def drop(self, steps: Collection[Waiting]) -> None:
        """Let these steps wait no more."""
        with self._lock:
            self._drop(steps)

    def hand_over(self, most: int) -> list[Waiting]:
        """Take at most so many waiting steps out of the list: of each group of keys in turn, those that came last."""
        with self._lock:
            turns = zip_longest(*(reversed(group) for group in self._waiting.values()))
            steps = [*islice((step for turn in turns for step in turn if step), most)]
            self._drop(steps)
            return steps

    def usage(self, key: Key) -> int:
        """How many places are held under this key."""
        return self._usage[key]

    @property
    def free(self) -> int:
        """How many places nobody holds."""
        return self.places - len(self._held)

    def _admission(self, held: frozenset[Key] | None = None) -> Callable[[frozenset[Key]], bool]:
        """Whether a step gets a place now under the keys that are given, if it has a place already under those in `held`."""
        now, free = self._clock(), self.free + (held is not None)
        free_for_slow = min(free, self.places - self.places // SLOW_PART - self._held_by_slow(now))

        def admits_plugin(key: Key) -> bool:
            calls = self._calls.get(key) or _Calls()
            return (
                calls.quick_at(now)
                or self._usage[key] < SLOW_FACTOR * free_for_slow
                or (calls.untried and free > self.places // UNTRIED_PART)
            )

        def admits(keys: frozenset[Key]) -> bool:
            new = keys - (held or frozenset())
            within_shares = free > 0 and all(self._usage[key] < _limit(key[0], free) for key in new)
            return within_shares and all(admits_plugin(key) for key in new if key[0] is Kind.PLUGIN)

        return admits

    def _held_by_slow(self, now: float) -> int:
        slow = (calls.begun for calls in self._calls.values() if calls.begun and not calls.quick_at(now))
        return len(set[str]().union(*slow))

    def _drop(self, steps: Collection[Waiting]) -> None:
        dropped = set(steps)
        groups = {keys: deque(step for step in group if step not in dropped) for keys, group in self._waiting.items()}
        self._waiting = {keys: group for keys, group in groups.items() if group}

    def _hold(self, owner: str, keys: frozenset[Key]) -> None:
        before = self._held.get(owner, frozenset())
        self._usage.subtract(before - keys)
        self._usage.update(keys - before)
        self._held[owner] = keys
        for key in before - keys:
            if not self._usage[key]:
                del self._usage[key]
        now = self._clock()
        for kind, name in before ^ keys:
            if kind is Kind.PLUGIN:
                calls = self._calls[kind, name]
                if owner in calls.begun:
                    calls.end(owner, now)
                else:
                    calls.begun[owner] = now

    def _most_held(self, keys: frozenset[Key]) -> float:
        return max(self._usage[key] / FACTORS[key[0]] for key in keys)


def _limit(kind: Kind, free: int) -> int:
    return min(FACTORS[kind] * free, LIMITS.get(kind, FACTORS[kind] * free))


@part
def shares() -> Shares:
    """The shares of this process."""
    return Shares(places_of(settings().stage_threads))
