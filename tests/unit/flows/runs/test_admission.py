from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_core.flows.runs.admission import Admission, Candidate, decide_in_order, decide_scheduled
from pipeline_core.flows.states import RunState

WORDS = {
    "w": RunState.WAITING,
    "b": RunState.BLOCKED,
    "r": RunState.RUNNING,
    "s": RunState.SUCCEEDED,
    "f": RunState.FAILED,
    "x": RunState.STOPPED,
    "e": RunState.EXPIRED,
    "F": RunState.FAILED,
}


def runs(text: str) -> list[Candidate]:
    """One run a letter, oldest first, named by its position; `F` has failed and was dismissed."""
    return [
        Candidate(
            id=str(index),
            execution_date=datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=index),
            state=WORDS[letter],
            blocked_by=str(index - 1) if letter == "b" else "",
            dismissed=letter == "F",
        )
        for index, letter in enumerate(text)
    ]


@pytest.mark.parametrize(
    ("before", "active", "past", "limit", "changes"),
    [
        ("www", 1, False, 0, "0r"),
        ("www", 2, False, 0, "0r 1r"),
        ("rww", 1, False, 0, ""),
        ("fww", 2, False, 0, "1r 2r"),
        ("www", 3, True, 0, "0r 1b 2b"),
        ("sww", 3, True, 0, "1r 2b"),
        ("fwb", 1, True, 0, "1b"),
        ("Fbb", 1, True, 0, "1r"),
        ("xb", 1, True, 0, ""),
        ("fbw", 1, False, 0, "1r"),
        ("rbw", 1, True, 0, "2b"),
        ("rbb", 1, False, 0, "1w 2w"),
        # A failed run that was retried runs again, and those behind it hold no place that it would need.
        ("rb", 1, True, 0, ""),
        ("wwww", 1, False, 2, "0e 1e 2r"),
        ("srww", 1, False, 1, "1x 2e 3r"),
        ("fbb", 1, True, 1, "1e 2r"),
        ("ewb", 1, True, 2, "1r"),
    ],
)
def test_runs_start_wait_and_are_overtaken(before: str, active: int, past: bool, limit: int, changes: str) -> None:
    verdicts = decide_scheduled(
        reversed(runs(before)), max_active_runs=active, depends_on_past=past, expired_limit=limit
    )
    assert {id: verdict.state for id, verdict in verdicts.items()} == {
        change[0]: WORDS[change[1]] for change in changes.split()
    }


def test_a_blocked_run_says_by_which() -> None:
    verdicts = decide_scheduled(runs("fww"), max_active_runs=1, depends_on_past=True, expired_limit=0)
    assert verdicts == {"1": Admission(RunState.BLOCKED, "0"), "2": Admission(RunState.BLOCKED, "1")}


def test_runs_by_hand_start_in_their_order_while_there_is_room() -> None:
    assert list(decide_in_order(runs("rwsww"), max_running=3)) == ["1", "3"]
    assert decide_in_order(runs("rrw"), max_running=1) == {}


@given(st.text("wbrsfxeF", max_size=12), st.integers(1, 3), st.booleans(), st.integers(0, 4))
def test_there_are_never_too_many_and_asking_again_changes_nothing(
    text: str, active: int, past: bool, limit: int
) -> None:
    before = runs(text)
    settings = {"max_active_runs": active, "depends_on_past": past, "expired_limit": limit}
    verdicts = decide_scheduled(before, **settings)  # type: ignore[arg-type]
    after = [
        replace(run, state=verdicts[run.id].state, blocked_by=verdicts[run.id].blocked_by)
        if run.id in verdicts
        else run
        for run in before
    ]
    running = sum(run.state is RunState.RUNNING for run in after)
    assert running <= max(active, sum(run.state is RunState.RUNNING for run in before))
    assert decide_scheduled(after, **settings) == {}  # type: ignore[arg-type]
    if limit:
        assert all(run.state.final for run in after[:-limit])
