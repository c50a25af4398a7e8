"""The feed of events, read while others write and commit in any order."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as tried
from hypothesis import strategies as st
from sqlalchemy import delete, func, select, text
from sqlalchemy.orm import Session

from api.schemas.jobs import Submit
from pipeline_core.auth.actor import Actor
from pipeline_core.common.clock import now
from pipeline_core.database import transaction
from pipeline_core.database.models import Event, FeedChange, FeedKind, Job
from pipeline_core.jobs import claims, control, cursor, feed, feed_tail, lifecycle
from pipeline_core.jobs.cursor import Continue
from pipeline_core.jobs.feed_tail import FeedTail
from pipeline_core.jobs.submission import submit
from pipeline_core.stages.names import Stage
from pipeline_core.stages.outcomes import Advance, ClaimedStep, Postpone
from pipeline_core.states import JobState
from tests import builders
from tests.statements import counted_statements
from tests.waiting import HANG_SECONDS

ADMIN = Actor(name="admin", admin=True)


@pytest.fixture(autouse=True)
def no_jobs(service_settings: Any) -> None:
    empty()


def empty() -> None:
    with transaction() as session:
        session.execute(delete(Job))
        session.execute(delete(FeedChange))


def submitted(user: str = "ada") -> str:
    raw = {"userID": user, "jobName": "train", "jobKind": "Any", "job": {"kind": "Any"}}
    return submit(Submit().read(raw), ADMIN)


def change(session: Session, job_id: str) -> None:
    """One more event of the job: suspended and waiting in turn."""
    job = lifecycle.lock(session, job_id)
    to = JobState.WAITING if job.state == JobState.SUSPENDED else JobState.SUSPENDED
    lifecycle.transition(session, job, to, reason="")


def everything(actor: Actor = ADMIN, limit: int = 1000, after: int = 0) -> list[dict[str, Any]]:
    return list(pages(actor, limit, after))


def pages(actor: Actor, limit: int, after: int) -> Iterator[dict[str, Any]]:
    while True:
        found = feed.read(actor, after=after, limit=limit)
        yield from map(dict, found.events)
        if not found.events:
            return
        after = found.next


def names(events: list[dict[str, Any]]) -> list[tuple[str, int]]:
    return [(event["jobID"], event["sequence"]) for event in events]


def assert_each_job_in_sequence(events: list[tuple[str, int]]) -> None:
    for job_id in {job for job, _ in events}:
        sequences = [sequence for job, sequence in events if job == job_id]
        assert sequences == list(range(1, len(sequences) + 1)), job_id


def test_an_event_tells_of_its_change_and_its_job() -> None:
    job_id = submitted()
    control.stop(job_id, ADMIN, reason="enough")
    first, second = everything()
    assert first["position"] < second["position"]
    assert {name: value for name, value in second.items() if name not in ("position", "occurredAt")} == {
        "kind": "state",
        "runID": None,
        "jobID": job_id,
        "sequence": 2,
        "state": "stopped",
        "previousState": "waiting",
        "reason": "enough",
        "actor": "admin",
        "jobName": "train",
        "jobKind": "Any",
        "userID": "ada",
        "namespace": "default",
    }
    assert second["occurredAt"].endswith("Z")


def test_an_event_that_commits_late_is_not_missed_by_readers_of_later_ones() -> None:
    early, late = submitted(), submitted()
    start = feed.read(ADMIN, after=0, limit=1000).next
    with transaction() as held:
        change(held, late)
        drawn = held.execute(select(func.max(Event.id))).scalar_one()
        with transaction() as other:
            change(other, early)
            assert other.execute(select(func.max(Event.id))).scalar_one() > drawn
        before = feed.read(ADMIN, after=start, limit=1000)
        assert names(list(before.events)) == [(early, 2)]
        assert feed.read(ADMIN, after=before.next, limit=1000).events == []
    after = feed.read(ADMIN, after=before.next, limit=1000)
    assert names(list(after.events)) == [(late, 2)]
    assert names(everything(after=start)) == [(early, 2), (late, 2)]


def test_what_is_rolled_back_is_never_in_the_feed() -> None:
    job_id = submitted()
    with transaction() as session:
        change(session, job_id)
        session.rollback()
    assert names(everything()) == [(job_id, 1)]


@tried(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.sampled_from(["open", "commit", "roll back", "read"]), st.integers(0, 3)), max_size=25),
    st.integers(1, 3),
)
def test_in_whatever_order_transactions_commit_a_reader_is_given_each_event_once(
    steps: list[tuple[str, int]], limit: int
) -> None:
    empty()
    jobs = [submitted() for _ in range(4)]
    open_ones: dict[int, tuple[ExitStack, Session]] = {}
    seen: list[tuple[str, int]] = []
    after = 0

    def end(which: int, *, commit: bool) -> None:
        stack, session = open_ones.pop(which)
        if not commit:
            session.rollback()
        stack.close()

    try:
        for step, which in steps:
            if step == "open" and which not in open_ones:
                stack = ExitStack()
                session = stack.enter_context(transaction())
                change(session, jobs[which])
                open_ones[which] = stack, session
            elif step in ("commit", "roll back") and which in open_ones:
                end(which, commit=step == "commit")
            elif step == "read":
                found = feed.read(ADMIN, after=after, limit=limit)
                assert len(found.events) <= limit
                seen += names(list(found.events))
                after = found.next
    finally:
        for which in list(open_ones):
            end(which, commit=True)
    seen += names(everything(limit=limit, after=after))
    assert len(seen) == len(set(seen))
    with transaction() as session:
        assert set(seen) == {
            (row.job_id, row.sequence) for row in session.execute(select(Event.job_id, Event.sequence))
        }
    assert_each_job_in_sequence(seen)
    assert seen == names(everything()), "the feed does not change behind a reader"


def test_readers_and_writers_at_once_lose_and_double_nothing() -> None:
    jobs = [submitted() for _ in range(3)]
    done = threading.Event()

    def write(job_id: str) -> None:
        for _ in range(15):
            with transaction() as session:
                change(session, job_id)

    def follow() -> list[tuple[str, int]]:
        seen, after = [], 0
        while True:
            last = done.is_set()
            found = feed.read(ADMIN, after=after, limit=7)
            seen += names(list(found.events))
            after = found.next
            if last and not found.events:
                return seen

    with ThreadPoolExecutor(5) as pool:
        readers = [pool.submit(follow) for _ in range(2)]
        writers = [pool.submit(write, job_id) for job_id in jobs]
        for writer in writers:
            writer.result(60)
        done.set()
        first, second = (reader.result(60) for reader in readers)
    assert first == second
    assert len(first) == len(set(first)) == 3 * 16
    assert_each_job_in_sequence(first)


def test_an_own_only_reader_sees_its_users_jobs_and_goes_on_after_those_of_others() -> None:
    own, other = submitted("ada"), submitted("bob")
    ada = Actor(name="ada", own_only=True)
    found = feed.read(ada, after=0, limit=1000)
    assert names(list(found.events)) == [(own, 1)]
    assert feed.read(ADMIN, after=found.next, limit=1000).events == []
    control.stop(other, ADMIN)
    assert feed.read(ada, after=found.next, limit=1000).events == []
    control.stop(own, ADMIN)
    assert names(list(feed.read(ada, after=found.next, limit=1).events)) == [(own, 2)]


def test_a_long_backlog_is_given_its_positions_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "PLACED_AT_ONCE", 2)
    jobs = [submitted() for _ in range(5)]
    assert len(feed.read(ADMIN, after=0, limit=1000).events) == 2
    assert names(everything()) == [(job_id, 1) for job_id in jobs]


def test_a_position_is_given_once_even_when_its_event_has_been_deleted() -> None:
    submitted()
    reached = feed.read(ADMIN, after=0, limit=1000).next
    empty()
    assert feed.read(ADMIN, after=reached, limit=1000).next == reached
    job_id = submitted()
    assert names(everything(after=reached)) == [(job_id, 1)]


def test_events_of_the_version_before_which_knows_no_positions_are_in_the_feed() -> None:
    job_id = submitted()
    with transaction() as session:
        session.execute(
            text(
                "INSERT INTO events (job_id, sequence, state, previous_state, reason, actor, occurred_at)"
                " VALUES (:job, 2, 'stopped', 'waiting', '', '', :now)"
            ),
            {"job": job_id, "now": now()},
        )
    assert names(everything()) == [(job_id, 1), (job_id, 2)]


def entries_of(kind: str) -> list[dict[str, Any]]:
    return [entry for entry in everything() if entry["kind"] == kind]


def test_the_moves_of_a_job_from_stage_to_stage_are_in_the_feed_between_its_events() -> None:
    job_id = submitted()
    claim = claims.claim(job_id, 0, Stage.TRANSLATE, "w")
    assert isinstance(claim, ClaimedStep)
    wait = {"reason": "Echo is unavailable", "seconds": 0.0, "unreachable": {}}
    cursor.finish(claim, Postpone(**wait))
    again = claims.claim(job_id, 0, Stage.TRANSLATE, "w")
    assert isinstance(again, ClaimedStep)
    # It waits for the same as before: nothing has changed.
    cursor.finish(again, Postpone(**wait))
    third = claims.claim(job_id, 0, Stage.TRANSLATE, "w")
    assert isinstance(third, ClaimedStep)
    with counted_statements() as moving:
        assert cursor.finish(third, Advance(taskset=builders.taskset())) == Continue(Stage.LAUNCH)
    assert len([statement for statement in moving if "feed_changes" in statement]) == 1
    assert not [statement for statement in moving if statement.startswith("INSERT INTO feed_changes")]
    control.stop(job_id, ADMIN)
    shown = [(entry["kind"], entry.get("state") or entry["stage"], entry["reason"]) for entry in everything()]
    assert shown == [
        ("state", "waiting", ""),
        ("stage", "translate", "Echo is unavailable"),
        ("stage", "launch", ""),
        ("state", "stopped", "stopped by admin"),
    ]
    moved = entries_of("stage")[1]
    assert moved.pop("occurredAt").endswith("Z")
    assert moved.pop("position") > 0
    assert moved == {
        "kind": "stage",
        "jobID": job_id,
        "runID": None,
        "stage": "launch",
        "reason": "",
        "jobName": "train",
        "jobKind": "Any",
        "userID": "ada",
        "namespace": "default",
    }
    assert {entry["kind"] for entry in everything(Actor(name="bob", own_only=True))} == set()
    assert len(everything(Actor(name="ada", own_only=True), limit=1)) == 4


def test_a_tail_shows_each_reader_what_the_feed_shows() -> None:
    tail = FeedTail()
    asked: dict[str, Any] = {"limit": 2, "kinds": tuple(FeedKind), "seconds": 10.0, "is_gone": lambda: False}
    ada = Actor(name="ada", own_only=True)
    with ThreadPoolExecutor(4) as pool:
        start = feed.latest()
        seen: dict[Any, list[tuple[str, int]]] = {}

        def follow(actor: Actor, count: int) -> list[tuple[str, int]]:
            found, after = [], start
            while len(found) < count:
                page = tail.read_or_wait(actor, after=after, **asked)
                found += names(page.events)
                after = page.next
            return found

        readers = {
            actor: [pool.submit(follow, actor, count) for _ in range(2)] for actor, count in ((ADMIN, 10), (ada, 5))
        }
        for _ in range(5):
            submitted("ada"), submitted("bob")
        seen = {actor: [reader.result(HANG_SECONDS) for reader in both] for actor, both in readers.items()}
    assert seen[ADMIN] == [names(everything(after=start))] * 2
    assert seen[ada] == [names(everything(ada, after=start))] * 2
    tail.close()


def test_a_tail_asks_the_database_once_a_look_while_nothing_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_tail, "LOOK_SECONDS", 0.2)
    tail, start = FeedTail(), feed.latest()
    reading: dict[str, Any] = {"limit": 1, "kinds": tuple(FeedKind), "is_gone": lambda: False}
    tail.read_or_wait(ADMIN, after=start, seconds=0.5, **reading)
    with counted_statements() as executed, ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(tail.read_or_wait, ADMIN, after=start, seconds=2.0, **reading) for _ in range(8)]
        assert [found.result(HANG_SECONDS).next for found in waiting] == [start] * 8
    assert len(executed) <= 12, executed
    tail.close()


def test_a_reader_whose_client_has_gone_waits_no_longer() -> None:
    tail, gone = FeedTail(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit(
            tail.read_or_wait,
            ADMIN,
            after=feed.latest(),
            limit=1,
            kinds=tuple(FeedKind),
            seconds=HANG_SECONDS,
            is_gone=gone.is_set,
        )
        gone.set()
        assert reader.result(HANG_SECONDS / 2).entries == []
    tail.close()
