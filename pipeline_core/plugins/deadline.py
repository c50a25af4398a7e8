"""A moment at which something has to be over."""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Deadline:
    """`at` is a reading of `time.monotonic()`, `seconds` the whole span that led to it, for messages."""

    at: float
    seconds: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        return cls(time.monotonic() + seconds, seconds)

    def remaining(self) -> float:
        """Seconds that are left, always more than 0. Raises TimeoutError when there are none."""
        left = self.at - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"{self} are over")
        return left

    def __str__(self) -> str:
        return f"{self.seconds:.3g} s"
