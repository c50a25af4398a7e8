"""Transactions that conflict with each other."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event
from typing import Any

import pytest
from sqlalchemy import text

from pipeline_core.common.clock import now
from pipeline_core.database import again_if_contended, transaction
from pipeline_core.jobs import control, cursor, leases, trail_rows
from pipeline_core.jobs.cursor import Continue
from pipeline_core.jobs.leases import LeaseLost
from pipeline_core.stages.names import Stage
from pipeline_core.stages.outcomes import Advance, TrailEntry, TrailOutcome
from tests.integration.jobs.test_cursor import ADMIN, claimed, job_of, submitted
from tests.waiting import HANG_SECONDS, wait_for

pytestmark = pytest.mark.usefixtures("service_settings")


def somebody_waits_for_a_lock() -> bool:
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    with transaction() as session:
        return bool(session.scalar(text(waiting)))


def test_a_gate_s_answer_and_a_stop_do_not_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = submitted()
    cursor.finish(claimed(job_id), Advance())
    with transaction() as session:
        session.execute(text("UPDATE steps SET stage = 'gates' WHERE job_id = :id"), {"id": job_id})
    claim = claimed(job_id, Stage.GATES)
    write = trail_rows.write
    holds_the_step = Event()

    def write_late(*arguments: Any) -> None:
        holds_the_step.set()
        wait_for(somebody_waits_for_a_lock, "the stop to wait for the step")
        write(*arguments)

    monkeypatch.setattr(trail_rows, "write", write_late)
    entry = TrailEntry(plugin_key="AccessGate.a.b", outcome=TrailOutcome.ANSWERED, started_at=now())
    with ThreadPoolExecutor(2) as pool:
        renewed = pool.submit(leases.renew, claim, [entry])
        assert holds_the_step.wait(HANG_SECONDS)
        stopped = pool.submit(control.stop, job_id, ADMIN)
        renewed.result(20)
        stopped.result(20)
    assert job_of(job_id).state == "stopped"


def test_a_contended_transaction_is_retried_as_a_whole() -> None:
    first, second = submitted(), submitted()
    tries: list[str] = []
    both_hold_one = Barrier(2, timeout=HANG_SECONDS)
    committed = Event()

    @again_if_contended
    def touch(mine: str, other: str) -> None:
        tries.append(mine)
        if len(tries) > 2:
            # Otherwise it may lock its job again before the other one, which waits for it, is woken.
            assert committed.wait(HANG_SECONDS)
        with transaction() as session:
            for place, job_id in enumerate((mine, other)):
                session.execute(text("UPDATE jobs SET retried = retried + 1 WHERE id = :id"), {"id": job_id})
                if place == 0 and len(tries) <= 2:
                    both_hold_one.wait()
        committed.set()

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(touch, (first, second), (second, first)))
    assert (job_of(first).retried, job_of(second).retried) == (2, 2)
    assert len(tries) == 3


def test_a_job_goes_on_although_its_lease_was_renewed_while_its_outcome_waited() -> None:
    job_id = submitted()
    claim = claimed(job_id)
    entry = TrailEntry(plugin_key="TemplateTranslator.a.b", outcome=TrailOutcome.ANSWERED, started_at=now())
    with ThreadPoolExecutor(1) as pool:
        with transaction() as session:
            session.execute(text("UPDATE steps SET due_at = due_at + '1 s' WHERE job_id = :id"), {"id": job_id})
            finished = pool.submit(cursor.finish, claim, Advance(trail=[entry]))
            wait_for(somebody_waits_for_a_lock, "the outcome to wait for the step")
        assert finished.result(20) == Continue(Stage.LAUNCH)
    assert job_of(job_id).stage == "launch"
    with transaction() as session:
        assert trail_rows.read(session, job_id, Stage.TRANSLATE) == (entry,)


def test_nothing_of_an_outcome_is_written_when_the_job_is_stopped_while_it_waits() -> None:
    job_id = submitted()
    claim = claimed(job_id)
    entry = TrailEntry(plugin_key="TemplateTranslator.a.b", outcome=TrailOutcome.ANSWERED, started_at=now())
    with ThreadPoolExecutor(1) as pool:
        with transaction() as session:
            session.execute(text("UPDATE jobs SET epoch = epoch + 1 WHERE id = :id"), {"id": job_id})
            session.execute(text("DELETE FROM steps WHERE job_id = :id"), {"id": job_id})
            finished = pool.submit(cursor.finish, claim, Advance(trail=[entry], namespace="other"))
            wait_for(somebody_waits_for_a_lock, "the outcome to wait for the job")
        with pytest.raises(LeaseLost):
            finished.result(20)
    assert job_of(job_id).namespace == claim.namespace
    with transaction() as session:
        assert trail_rows.read(session, job_id, Stage.TRANSLATE) == ()
