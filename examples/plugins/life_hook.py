"""LifeHook: receives each change of a job's state, and remembers the last ones.

It answers by the job's name, since a LifeHook is not given the header: `…-ex` is answered EX (do not send this again),
`…-re2` is answered RE (send it again) twice and then OK, any other number likewise; all others OK at once.
"""

from __future__ import annotations

import re
import threading
from collections import deque
from typing import Any

REMEMBERED = 1000
FINAL = ("succeeded", "failed", "stopped")


class Hook:
    """The newest `REMEMBERED` deliveries. May be used by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._received: deque[dict[str, Any]] = deque(maxlen=REMEMBERED)

    def hear(self, event: dict[str, Any], delivery: str) -> str:
        """The answer to one attempt at delivering `event`."""
        with self._lock:
            attempt = 1 + sum(
                past["id"] == event["id"] and past["sequence"] == event["sequence"] for past in self._received
            )
            answer = reply(event["jobName"], attempt)
            self._received.append({**event, "delivery": delivery, "attempt": attempt, "answer": answer})
        return answer

    def received(self) -> list[dict[str, Any]]:
        with self._lock:
            return list(self._received)

    def endings(self, user: str) -> list[str]:
        """The final states of the user's jobs, each job once."""
        ended = {
            event["id"]: event["current_state"]
            for event in self.received()
            if event["userID"] == user and event["current_state"] in FINAL
        }
        return list(ended.values())


def reply(job_name: str, attempt: int) -> str:
    if job_name.endswith("-ex"):
        return "EX"
    again = re.search(r"-re(\d{1,2})$", job_name)
    return "RE" if again and attempt <= int(again[1]) else "OK"
