from __future__ import annotations

import pytest
from sqlalchemy import insert

from pipeline_core.auth import audit
from pipeline_core.auth.actor import Actor
from pipeline_core.database import transaction
from pipeline_core.database.models import AuditEntry

pytestmark = pytest.mark.usefixtures("database")
ALICE = Actor(name="alice", token_id="t1", address="192.0.2.1", request_id="r1")


def test_an_entry_says_who_what_when_why_and_from_where() -> None:
    with transaction() as session:
        audit.record(session, ALICE, audit.Action.JOB_STOP, "j1", reason="enough", before={"b": 1, "a": 2}, after=[])
    with transaction() as session:
        [entry], total = audit.listing(session, limit=10, offset=0)
    assert total == 1
    assert entry.pop("at").endswith("Z")
    assert isinstance(entry.pop("id"), int)
    assert entry == {
        "actor": "alice",
        "tokenID": "t1",
        "address": "192.0.2.1",
        "requestID": "r1",
        "action": "job.stop",
        "target": "j1",
        "reason": "enough",
        "before": {"b": 1, "a": 2},
        "after": [],
    }


def test_an_entry_goes_with_the_transaction_that_makes_the_change() -> None:
    with transaction() as session:
        audit.record(session, ALICE, audit.Action.JOB_STOP, "j1")
        session.flush()
        session.rollback()
    with transaction() as session:
        assert audit.listing(session, limit=10, offset=0) == ([], 0)


def test_pages_begin_with_the_newest() -> None:
    with transaction() as session:
        for number in range(5):
            audit.record(session, ALICE, audit.Action.JOB_RESUME, f"j{number}")
            session.flush()
        page, total = audit.listing(session, limit=2, offset=1)
    assert [entry["target"] for entry in page] == ["j3", "j2"]
    assert total == 5


def test_a_total_is_counted_only_so_far() -> None:
    with transaction() as session:
        audit.record(session, ALICE, audit.Action.JOB_RESUME, "j")
        session.flush()
        [entry], _ = audit.listing(session, limit=1, offset=0)
        session.execute(
            insert(AuditEntry), [{"at": entry["at"], "actor": "a", "action": "x", "target": "j"} for _ in range(10_050)]
        )
        assert audit.listing(session, limit=1, offset=0)[1] == 10_001
