"""A clock that a test sets: what the service takes for the present, in this process."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from pipeline_core.common import clock


class TestClock:
    """Stands still until it is moved."""

    __test__ = False

    def __init__(self, monkeypatch: pytest.MonkeyPatch, moment: datetime) -> None:
        self.moment = moment

        class Settable(datetime):
            @classmethod
            def now(cls, tz: object = None) -> datetime:
                return self.moment

        monkeypatch.setattr(clock, "datetime", Settable)

    def move(self, **span: float) -> datetime:
        """Go on (or back) by so much; the new present."""
        self.moment += timedelta(**span)
        return self.moment
