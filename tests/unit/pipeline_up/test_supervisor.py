from __future__ import annotations

import pytest

from pipeline_up.supervisor import describe


@pytest.mark.parametrize(("status", "words"), [(0, "with code 0"), (3, "with code 3"), (-9, "by SIGKILL")])
def test_an_exit_status_is_described_in_words(status: int, words: str) -> None:
    assert describe(status) == words
