from __future__ import annotations

from collections.abc import Sequence

import pytest

from pipeline_core.common import woken
from pipeline_core.database.wakeups import RunDue, Wakeup
from pipeline_core.flows.runs import progress
from workers import publish
from workers.tasks import flows


@pytest.mark.parametrize(("more", "published"), [(True, [RunDue("r1")]), (False, [])])
def test_a_run_with_more_to_do_is_put_back_into_the_queue(
    monkeypatch: pytest.MonkeyPatch, more: bool, published: Sequence[Wakeup]
) -> None:
    found: list[Wakeup] = []
    monkeypatch.setattr(woken, "arrived", lambda kind, id: None)
    monkeypatch.setattr(progress, "advance", lambda run_id, seconds: more)
    monkeypatch.setattr(publish, "publish", found.extend)
    flows.advance("r1")
    assert found == published
