from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis import Redis

from pipeline_core.metrics.totals import Metric, Totals
from pipeline_core.plugins import guard as guard_module
from pipeline_core.plugins.errors import (
    AddressRefused,
    BadAnswer,
    CallFailed,
    CircuitOpen,
    ConcurrencyLimit,
    JobRejected,
    PluginUnavailable,
)
from pipeline_core.plugins.guard import AttemptOutcome, Circuit, Guard
from pipeline_core.plugins.types import Mode
from pipeline_core.settings import Settings
from tests.waiting import wait_for

LONG = 60.0
MakeGuard = Callable[..., Guard]


@pytest.fixture
def make_guard(valkey_socket: str, valkey: Redis) -> Iterator[MakeGuard]:
    with ExitStack() as clients:

        def make(
            *,
            concurrency: int = 64,
            failures: int = 3,
            open_seconds: float = LONG,
            text: bool = False,
            reporting: bool = True,
        ) -> Guard:
            """Without `reporting` it is one of a process that has died, or is about to report."""
            client = clients.enter_context(Redis(unix_socket_path=valkey_socket, decode_responses=text))
            guard = Guard(client, prefix="t:", concurrency=concurrency, failures=failures, open_seconds=open_seconds)
            if not reporting:
                guard._start_reporting = lambda: None  # type: ignore[method-assign]
            clients.callback(guard.close)
            return guard

        yield make


def ends(guard: Guard, failure: BaseException | None = None, key: str = "k") -> None:
    """Make one request to the plugin that ends with this failure, or with none."""
    with suppress(type(failure) if failure else ()), guard.entered(key, 30):
        if failure:
            raise failure


def refuses(guard: Guard, refusal: type[CallFailed], key: str = "k") -> bool:
    try:
        ends(guard, key=key)
    except refusal:
        return True
    return False


def circuit(guard: Guard) -> Circuit | None:
    health = guard.health("k")
    return health and health.circuit


def test_calls_at_a_time_are_limited_over_all_workers(make_guard: MakeGuard) -> None:
    one, other = make_guard(concurrency=2), make_guard(concurrency=2)
    with one.entered("k", 30), other.entered("k", 30):
        for guard in (one, other):
            with pytest.raises(ConcurrencyLimit, match="2 calls of it are under way already") as caught:
                ends(guard)
            assert caught.value.retry_after == guard_module.LIMIT_RETRY
        ends(one, key="another plugin")
        assert one.health("k").calls == 2
    ends(one)
    wait_for(lambda: one.health("k").calls == 0)


def test_the_concurrency_limit_does_not_count_as_a_failure(make_guard: MakeGuard) -> None:
    guard = make_guard(concurrency=1, failures=1)
    with guard.entered("k", 30):
        assert all(refuses(guard, ConcurrencyLimit) for _ in range(5))
    health = guard.health("k")
    assert (health.circuit, health.failures, len(health.recent)) == (Circuit.CLOSED, 0, 1)


def test_a_lost_process_gives_its_slots_back(make_guard: MakeGuard, monkeypatch: pytest.MonkeyPatch) -> None:
    guard, lost = make_guard(concurrency=2), make_guard(concurrency=2, reporting=False)
    with guard.entered("k", 30):
        monkeypatch.setattr(guard_module, "LEASE_SECONDS", 0.5)
        lost.entered("k", 30).__enter__()
        assert refuses(guard, ConcurrencyLimit)
        wait_for(lambda: not refuses(guard, ConcurrencyLimit))


def test_slots_in_use_are_renewed(make_guard: MakeGuard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard_module, "LEASE_SECONDS", 1.0)
    guard, other = make_guard(concurrency=1), make_guard(concurrency=1)
    with guard.entered("k", 30):
        share = guard._shares["k"]
        first = share.lease_end
        wait_for(lambda: share.lease_end > first + 1.0)
        assert refuses(other, ConcurrencyLimit)


def test_slots_that_are_not_used_are_given_back(make_guard: MakeGuard) -> None:
    one, other = make_guard(concurrency=2), make_guard(concurrency=2)
    with one.entered("k", 30), one.entered("k", 30):
        assert refuses(other, ConcurrencyLimit)
    wait_for(lambda: not refuses(other, ConcurrencyLimit))
    wait_for(lambda: one._shares["k"].slots == 0)
    with other.entered("k", 30), other.entered("k", 30):
        assert refuses(one, ConcurrencyLimit)


def test_while_all_is_well_calls_cost_no_round_trip_and_are_reported_together(
    make_guard: MakeGuard, valkey: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(guard_module.KNOWN_SECONDS, Mode.ACTIVE, LONG)
    monkeypatch.setattr(guard_module, "LEASE_SECONDS", LONG)
    guard = make_guard(text=True, reporting=False)
    ends(guard)
    guard.health("k")
    before = scripts_run(valkey)
    for _ in range(50):
        with guard.entered("k", 30):
            ends(guard)
    assert scripts_run(valkey) == before
    assert len(guard.health("k").recent) == 20
    assert scripts_run(valkey) == before + 2, "one report, and the reading"
    added = Totals(guard._redis, prefix="t:").histograms(Metric.PLUGIN_CALL_SECONDS)
    assert sum(sum(histogram.counts) for histogram in added.values()) == 101


def scripts_run(valkey: Redis) -> int:
    return int(valkey.info("commandstats").get("cmdstat_evalsha", {}).get("calls", 0))


STEPS = st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["enter", "enter", "leave", "report"])), max_size=40)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS, limit=st.integers(1, 20))
def test_no_order_of_calls_and_reports_exceeds_the_limit(
    make_guard: MakeGuard, valkey: Redis, steps: list[tuple[int, str]], limit: int
) -> None:
    valkey.flushall()
    guards = [make_guard(concurrency=limit, reporting=False) for _ in range(3)]
    calls: list[list[AbstractContextManager[None]]] = [[] for _ in guards]
    for number, step in steps:
        guard, held = guards[number], calls[number]
        if step == "enter":
            with suppress(ConcurrencyLimit):
                call = guard.entered("k", 30)
                call.__enter__()
                held.append(call)
        elif step == "leave" and held:
            held.pop().__exit__(None, None, None)
        elif step == "report":
            guard._report_all()
        assert sum(map(len, calls)) <= limit
    for guard, held in zip(guards, calls, strict=True):
        while held:
            held.pop().__exit__(None, None, None)
        guard.close()
    assert guards[0].health("k").calls == 0
    assert valkey.hlen("t:plugin:k:slots") == 0


@pytest.mark.parametrize("text", [False, True])
def test_a_circuit_opens_after_failures_in_a_row_for_all_workers(make_guard: MakeGuard, text: bool) -> None:
    one, other = make_guard(text=text), make_guard(text=text)
    for guard in (one, other, one):
        ends(guard, PluginUnavailable("no connection: ä"))
    with pytest.raises(CircuitOpen, match="left alone for a while after: no connection: ä") as caught:
        ends(make_guard(text=text))
    assert 0 < caught.value.retry_after <= LONG
    assert circuit(one) is Circuit.OPEN
    wait_for(lambda: not other._shares["k"].admits(time.monotonic()))
    assert refuses(other, CircuitOpen)
    ends(one, key="another plugin")


def test_an_answer_from_before_the_failures_does_not_close_the_circuit(make_guard: MakeGuard) -> None:
    late, other = make_guard(reporting=False), make_guard()
    ends(late)
    wait_for(lambda: time.time() > late._shares["k"].ended[0].attempt.at + 0.002)
    for _ in range(3):
        ends(other, PluginUnavailable("x"))
    assert len(late.health("k").recent) == 4
    assert circuit(other) is Circuit.OPEN


@pytest.mark.parametrize("answer", [None, BadAnswer("status 404")])
def test_any_answer_begins_the_row_anew(make_guard: MakeGuard, answer: BadAnswer | None) -> None:
    guard = make_guard()
    for _ in range(3):
        ends(guard, PluginUnavailable("x"))
        ends(guard, PluginUnavailable("x"))
        ends(guard, answer)
    assert circuit(guard) is Circuit.CLOSED


@pytest.mark.parametrize("end", [AddressRefused("x"), KeyboardInterrupt()])
def test_a_call_that_never_reached_the_plugin_does_not_change_the_circuit(
    make_guard: MakeGuard, end: BaseException
) -> None:
    guard = make_guard()
    ends(guard, PluginUnavailable("x"))
    for _ in range(5):
        ends(guard, end)
    assert guard.health("k").failures == 1
    assert guard.health("k").calls == 0


@pytest.fixture
def half_open(make_guard: MakeGuard) -> Guard:
    guard = make_guard(open_seconds=0.3)
    for _ in range(3):
        ends(guard, PluginUnavailable("x"))
    assert circuit(guard) is Circuit.OPEN
    wait_for(lambda: circuit(guard) is Circuit.HALF_OPEN)
    return guard


def test_one_call_probes_and_closes_the_circuit(half_open: Guard) -> None:
    with half_open.entered("k", 30):
        assert all(refuses(half_open, CircuitOpen) for _ in range(3))
    assert circuit(half_open) is Circuit.CLOSED
    ends(half_open)


def test_a_probe_that_fails_opens_the_circuit_again(half_open: Guard) -> None:
    ends(half_open, PluginUnavailable("still away"))
    assert refuses(half_open, CircuitOpen)
    assert half_open.health("k").cause == "still away"
    wait_for(lambda: not refuses(half_open, CircuitOpen))


@pytest.mark.parametrize("end", [AddressRefused("x"), KeyboardInterrupt()])
def test_a_probe_that_was_abandoned_leaves_the_next_to_probe(half_open: Guard, end: BaseException) -> None:
    ends(half_open, end)
    ends(half_open)
    assert circuit(half_open) is Circuit.CLOSED


def test_a_lost_probe_is_followed_by_another(
    make_guard: MakeGuard, half_open: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard_module, "MARGIN", 0.1)
    lost = half_open.entered("k", 0.1)
    lost.__enter__()
    assert refuses(half_open, CircuitOpen)
    wait_for(lambda: not refuses(half_open, CircuitOpen))


def test_health_has_the_recent_outcomes(make_guard: MakeGuard) -> None:
    guard = make_guard()
    assert guard.health("k").latency_seconds is None
    for _ in range(30):
        ends(guard)
    ends(guard, BadAnswer("status 404"))
    ends(guard, PluginUnavailable("no connection"))
    health = guard.health("k")
    assert [record.outcome for record in health.recent[:3]] == [
        AttemptOutcome.UNAVAILABLE,
        AttemptOutcome.BAD_ANSWER,
        AttemptOutcome.ANSWERED,
    ]
    assert len(health.recent) == 20
    assert (health.failures, health.cause, health.calls) == (1, "no connection", 0)
    assert health.latency_seconds >= 0


def test_redis_emptied_during_a_call_harms_nothing(make_guard: MakeGuard, valkey: Redis) -> None:
    guard = make_guard()
    ends(guard, PluginUnavailable("x"))
    with guard.entered("k", 30):
        valkey.flushall()
        valkey.script_flush()
    ends(guard)
    assert circuit(guard) is Circuit.CLOSED


def test_all_keys_have_the_prefix_and_go_away_by_themselves(make_guard: MakeGuard, valkey: Redis) -> None:
    guard = make_guard()
    ends(guard, PluginUnavailable("x"))
    with guard.entered("k", 30):
        keys = list(valkey.scan_iter())
        assert len(keys) == 4
        assert all(key.startswith((b"t:plugin:k:", b"t:totals:")) and valkey.ttl(key) > 0 for key in keys)


def test_durations_are_added_up_by_outcome(make_guard: MakeGuard) -> None:
    guard = make_guard(text=True)
    for failure in (None, None, PluginUnavailable("x"), BadAnswer("x"), JobRejected("x")):
        ends(guard, failure)
    guard.close()
    added = Totals(guard._redis, prefix="t:").histograms(Metric.PLUGIN_CALL_SECONDS)
    assert {labels: sum(histogram.counts) for labels, histogram in added.items()} == {
        ("k", AttemptOutcome.ANSWERED): 2,
        ("k", AttemptOutcome.UNAVAILABLE): 1,
        ("k", AttemptOutcome.BAD_ANSWER): 1,
        ("k", AttemptOutcome.REJECTED): 1,
    }


def test_calls_continue_while_redis_is_unavailable_and_it_is_not_called_each_time(
    closed_port: int, capsys: pytest.CaptureFixture[str]
) -> None:
    guard = Guard.configured(
        Settings(redis_url=f"redis://127.0.0.1:{closed_port}/0", plugin_concurrency=1, breaker_failures=1)
    )
    with guard.entered("k", 30), guard.entered("k", 30):
        pass
    for _ in range(3):
        ends(guard, PluginUnavailable("x"))
    assert guard.health("another") is None
    assert capsys.readouterr().out.count("calls are unguarded") == 1
