from __future__ import annotations

from datetime import UTC, datetime

import pytest

from pipeline_core.database import transaction, wakeups
from pipeline_core.settings import Settings
from tests.clock import TestClock
from tests.integration.schedules.ledger import Ledger
from tests.servers import delete_rows

START = datetime(2026, 3, 1, 12, 0, 30, tzinfo=UTC)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> TestClock:
    """Half past noon and no minute, until a test moves it."""
    return TestClock(monkeypatch, START)


@pytest.fixture
def ledger(service_settings: Settings, clock: TestClock) -> Ledger:
    """Flows and their runs, none yet; nobody else is at work on them, and nobody is woken."""
    wakeups.publish_with(None)
    with transaction() as session:
        delete_rows(session, "flows", "audit", "template_revisions")
    return Ledger(clock)
