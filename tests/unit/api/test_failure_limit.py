from __future__ import annotations

import pytest

from api import failure_limit
from api.failure_limit import WINDOW_SECONDS, FailureLimit
from pipeline_core.errors import TooManyFailures

FAILURES = 60


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def limit(clock: Clock) -> FailureLimit:
    return FailureLimit(FAILURES, clock)


def exhaust(limit: FailureLimit, address: str) -> None:
    for number in range(FAILURES):
        limit.check(address, f"guess {number}")
        limit.refused(address, f"guess {number}")


def test_an_address_is_blocked_after_too_many_failures_until_the_window_has_passed(
    limit: FailureLimit, clock: Clock
) -> None:
    exhaust(limit, "192.0.2.1")
    with pytest.raises(TooManyFailures) as blocked:
        limit.check("192.0.2.1", "another guess")
    assert 0 < blocked.value.retry_after <= WINDOW_SECONDS + 1
    clock.now += blocked.value.retry_after
    limit.check("192.0.2.1", "another guess")


def test_addresses_of_one_ipv6_network_count_as_one(limit: FailureLimit) -> None:
    for number in range(FAILURES):
        limit.refused(f"2001:db8:0:1::{number:x}", f"guess {number}")
    for same in ("2001:db8:0:1:ffff::1", "2001:db8:0:1::1%eth0"):
        with pytest.raises(TooManyFailures):
            limit.check(same, "another guess")
    limit.check("2001:db8:0:2::1", "another guess")
    exhaust(limit, "::ffff:192.0.2.1")
    with pytest.raises(TooManyFailures):
        limit.check("192.0.2.1", "another guess")


def test_other_addresses_are_not_blocked(limit: FailureLimit) -> None:
    exhaust(limit, "192.0.2.1")
    limit.check("192.0.2.2", "a guess")


def test_an_accepted_credential_is_not_blocked_until_it_is_refused(limit: FailureLimit) -> None:
    limit.accepted("the password")
    exhaust(limit, "192.0.2.1")
    limit.check("192.0.2.1", "the password")
    limit.refused("192.0.2.1", "the password")
    with pytest.raises(TooManyFailures):
        limit.check("192.0.2.1", "the password")


def test_the_number_of_cached_addresses_is_bounded(limit: FailureLimit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failure_limit, "MAX_ENTRIES", 10)
    for number in range(50):
        limit.refused(f"192.0.2.{number}", "guess")
        limit.accepted(f"token {number}")
    assert len(limit._refused) == len(limit._accepted) == 10
