"""Drain: what a hook worker does with a wake-up. It claims what is due to the subscriber, many deliveries at a time, makes the
calls side by side, writes their results together, and goes on until nothing is due.

One thread turns between the database and the calls, which have threads of their own. In each turn it writes the results that
have come in, and claims in the same transaction. Which calls start is for `places` to decide.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import structlog

from pipeline_core.common import failpoints
from pipeline_core.common.failpoints import Point
from pipeline_core.database.models import DeliveryStatus
from pipeline_core.errors import Unavailable
from pipeline_core.hooks import sending
from pipeline_core.hooks.claims import Attempted, write_and_claim
from pipeline_core.hooks.places import Call, Places
from pipeline_core.hooks.sending import NOT_SENT, ClaimedDelivery, DeliveryResult
from pipeline_core.metrics.totals import Metric, totals

log = structlog.get_logger(__name__)

LOOK_SECONDS = 0.1
"""How often to look whether places have become free, while deliveries wait for one."""
PAUSE_SECONDS = 1.0
"""How long to wait for a database that is unavailable."""


class Drain:
    """The deliveries that one process attempts. `worker` names it in leases. Thread-safe."""

    def __init__(
        self, worker: str, places: Places, send: Callable[[ClaimedDelivery], DeliveryResult] = sending.send
    ) -> None:
        self._worker = worker
        self._places = places
        self._send = send
        self._changed = threading.Condition()
        self._pool = ThreadPoolExecutor(places.most, thread_name_prefix="delivery")
        self._turning: threading.Thread | None = None
        self._stopping = False
        # Subscribers to whom more may be due, and until when those rest that may not be called now.
        self._wanted: set[str] = set()
        self._resting: dict[str, float] = {}
        self._claimed: dict[str, deque[ClaimedDelivery]] = {}
        self._attempted: list[Attempted] = []

    def wake(self, subscriber: str) -> None:
        """Attempt what is due to this subscriber, now or soon. Returns at once."""
        with self._changed:
            self._wanted.add(subscriber)
            if self._turning is None and not self._stopping:
                self._turning = threading.Thread(target=self._turn_around, name="drain", daemon=True)
                self._turning.start()
            self._changed.notify()

    def stop(self) -> None:
        """Start no more calls, wait for those under way, and write their results."""
        with self._changed:
            self._stopping = True
            self._leave(*self._claimed)
            self._changed.notify()
        if self._turning:
            self._turning.join()
        self._pool.shutdown()

    def _turn_around(self) -> None:
        while turn := self._next_turn():
            try:
                self._turn(*turn)
            except Unavailable as error:
                log.warning("deliveries postponed: the database is unavailable", error=error.message)
                if self._stopping:
                    return
                self._again(*turn)
            except Exception:
                # What was not written is attempted again when its lease ends.
                log.exception("a turn of the drain failed")

    def _next_turn(self) -> tuple[Sequence[Attempted], Mapping[str, int]] | None:
        """What is to be written, and how many deliveries to claim of each subscriber; None when all is done and it stops."""
        with self._changed:
            while True:
                moment = time.monotonic()
                self._start_calls(moment)
                asked = {} if self._stopping else self._claimable(moment)
                if self._attempted or asked:
                    self._wanted -= asked.keys()
                    attempted, self._attempted = self._attempted, []
                    return attempted, asked
                if self._stopping and not self._places.held:
                    return None
                self._changed.wait(LOOK_SECONDS if self._wanted or self._claimed else None)

    def _claimable(self, moment: float) -> dict[str, int]:
        ready = [key for key in self._wanted if self._resting.get(key, moment) <= moment]
        numbers = {key: self._places.ahead(key, len(self._claimed.get(key, ())), moment) for key in ready}
        return {key: number for key, number in numbers.items() if number}

    def _turn(self, attempted: Sequence[Attempted], asked: Mapping[str, int]) -> None:
        for each in attempted:
            failpoints.reach(Point.HOOK_ANSWERED, each.delivery.state)
        written, claimed = write_and_claim(attempted, asked, self._worker)
        for delivery in claimed:
            failpoints.reach(Point.HOOK_CLAIMED, delivery.state)
        for each in attempted:
            failpoints.reach(Point.HOOK_FINISHED, each.delivery.state)
        with self._changed:
            for delivery in claimed:
                self._claimed.setdefault(delivery.endpoint.key, deque()).append(delivery)
            found = Counter(delivery.endpoint.key for delivery in claimed)
            self._wanted.update(key for key, number in asked.items() if found[key] == number)
            if self._stopping:
                self._leave(*self._claimed)
            self._start_calls(time.monotonic())
        _report(attempted, written)

    def _again(self, attempted: Sequence[Attempted], asked: Mapping[str, int]) -> None:
        """Try the same in a later turn."""
        with self._changed:
            self._attempted = [*attempted, *self._attempted]
            self._wanted.update(asked)
            self._changed.wait_for(lambda: self._stopping, PAUSE_SECONDS)

    def _start_calls(self, moment: float) -> None:
        """Start the calls for which there are places. Call this with the lock."""
        while subscriber := self._places.next([first[0].subscriber for first in self._claimed.values()], moment):
            waiting = self._claimed[subscriber.key]
            delivery = waiting.popleft()
            if not waiting:
                del self._claimed[subscriber.key]
            if delivery.lease_end - moment < delivery.endpoint.timeout_seconds:
                self._attempted.append(Attempted(delivery, NOT_SENT))
                self._wanted.add(subscriber.key)
            else:
                self._pool.submit(self._attempt, self._places.begin(subscriber, moment), delivery)

    def _attempt(self, call: Call, delivery: ClaimedDelivery) -> None:
        result = None
        try:
            result = self._send(delivery)
        except Exception:
            # Its lease ends, and it is attempted again.
            log.exception("an attempt failed", delivery_id=delivery.delivery_id)
        key, moment = call.subscriber.key, time.monotonic()
        with self._changed:
            self._places.end(call, moment, answered=result.answered if result else None)
            self._wanted.add(key)
            if result:
                self._attempted.append(Attempted(delivery, result))
                if not result.counted:
                    self._resting[key] = moment + result.pause
                    self._leave(key)
            self._start_calls(moment)
            self._changed.notify()

    def _leave(self, *subscribers: str) -> None:
        """Leave what is claimed and not started to a later claim. Call this with the lock."""
        for key in subscribers:
            self._attempted += [Attempted(delivery, NOT_SENT) for delivery in self._claimed.pop(key, ())]


def _report(attempted: Sequence[Attempted], written: Mapping[str, DeliveryStatus]) -> None:
    sent = [each.delivery for each in attempted if each.result is not NOT_SENT and each.delivery.delivery_id in written]
    for status, number in Counter(written[delivery.delivery_id] for delivery in sent).items():
        totals().count(Metric.DELIVERY_ATTEMPTS, (status,), number)
    for delivery in sent:
        log.info(
            "delivery attempted",
            delivery_id=delivery.delivery_id,
            subject_id=delivery.subject_id,
            plugin=delivery.endpoint.key,
            status=str(written[delivery.delivery_id]),
        )
