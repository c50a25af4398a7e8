from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_core.jobs.trials import TOGETHER_CLAIMS, Trial, trial


@pytest.mark.parametrize(
    ("max_claims", "trials"),
    [
        (2, [Trial.TOGETHER, Trial.ALONE, Trial.GIVEN_UP]),
        (3, [Trial.TOGETHER, Trial.TOGETHER, Trial.ALONE, Trial.GIVEN_UP]),
        (5, [Trial.TOGETHER, Trial.TOGETHER, Trial.ALONE, Trial.ALONE, Trial.ALONE, Trial.GIVEN_UP]),
    ],
)
def test_a_step_is_tried_beside_others_then_alone_then_no_more(max_claims: int, trials: list[Trial]) -> None:
    assert [trial(count, max_claims) for count in range(1, len(trials) + 1)] == trials


@given(st.integers(2, 100))
def test_no_step_is_given_up_that_was_not_tried_alone_the_last_time(max_claims: int) -> None:
    assert trial(max_claims, max_claims) is Trial.ALONE
    assert trial(max_claims + 1, max_claims) is Trial.GIVEN_UP


@given(st.integers(1, TOGETHER_CLAIMS), st.integers(TOGETHER_CLAIMS + 1, 100))
def test_the_first_trials_are_beside_others_since_most_workers_die_of_something_else(count: int, most: int) -> None:
    assert trial(count, most) is Trial.TOGETHER
