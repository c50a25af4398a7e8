from __future__ import annotations

from pipeline_up.service import backoff


def test_pauses_between_starts_double_up_to_a_limit() -> None:
    assert [backoff(failures) for failures in (1, 2, 3, 7, 500)] == [0.5, 1.0, 2.0, 30.0, 30.0]
