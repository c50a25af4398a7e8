"""One thread renews what a process holds, and nothing that it holds no more."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from pipeline_core.errors import Unavailable
from pipeline_core.stages.names import Stage
from pipeline_core.stages.outcomes import ClaimedStep
from pipeline_core.stages.shares import Shares, Waiting, keys_of
from tests.unit.jobs.test_cursor import step
from tests.waiting import wait_for
from workers import lease_renewal
from workers.lease_renewal import LeaseRenewal


class Renewed:
    """Records the owners of each call; the first may fail."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.threads: set[int] = set()
        self.failures = 0

    def __call__(self, steps: Sequence[ClaimedStep]) -> None:
        self.calls.append(sorted(step.owner for step in steps))
        self.threads.add(threading.get_ident())
        if self.failures:
            self.failures -= 1
            raise Unavailable("The database is away.")


@pytest.fixture
def renewed() -> Renewed:
    return Renewed()


@pytest.fixture
def renewal(renewed: Renewed) -> Iterator[LeaseRenewal]:
    renewal = LeaseRenewal(renewed, seconds=0.001)
    yield renewal
    renewal.stop()


def test_a_place_that_is_free_for_a_moment_gets_one_of_the_waiting_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    places, published = Shares(places=4), list[Any]()
    steps = [Waiting(f"j{number}", 0, Stage.GATES) for number in range(9)]
    for each in steps:
        places.wait(each, keys_of("ann", ()))
    monkeypatch.setattr(lease_renewal, "shares", lambda: places)
    monkeypatch.setattr(lease_renewal, "publish", published.extend)
    monkeypatch.setattr(lease_renewal.leases, "keep_waiting", list)
    lease_renewal._renew(())
    assert [due.job_id for due in published] == ["j0", "j8"]
    assert places.waiting() == steps[1:-1]


def held(owner: str) -> ClaimedStep:
    return replace(step(Stage.GATES), owner=owner)


def test_all_steps_that_are_held_are_renewed_together_by_one_thread(renewal: LeaseRenewal, renewed: Renewed) -> None:
    with renewal.holding(held("a")):
        wait_for(lambda: ["a"] in renewed.calls, "the one")
        with renewal.holding(held("b")):
            wait_for(lambda: ["a", "b"] in renewed.calls, "both")
        count = len(renewed.calls)
        wait_for(lambda: len(renewed.calls) > count + 1, "another round")
        assert renewed.calls[-1] == ["a"]
    assert len(renewed.threads) == 1


def test_a_database_that_is_away_does_not_end_the_renewal(renewal: LeaseRenewal, renewed: Renewed) -> None:
    renewed.failures = 2
    with renewal.holding(held("a")):
        wait_for(lambda: len(renewed.calls) > 2, "the third try")
