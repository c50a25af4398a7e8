"""Counting which stored jobs a selector would match, against the one that is registered."""

from __future__ import annotations

from collections import Counter
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_core.jobs import what_if
from pipeline_core.jobs.what_if import EXAMPLES, MOST_GROUPS, PluginTally, StoredJob, tally
from pipeline_core.plugins.types import PluginType
from pipeline_core.selectors import Matcher, Selector, compile, parse_selector


def matcher(*kinds: str) -> Matcher:
    """Matches the jobs of these kinds."""
    raw = {
        "conditions": [{"name": "kind", "key": "jobKind", "expect": f"/^({'|'.join(kinds)})$/"}],
        "expression": "kind",
    }
    return compile(parse_selector(raw, "jobSelector") or Selector())


def job(number: int, kind: str = "TFJob", user: str = "ada", day: int = 1) -> StoredJob:
    return StoredJob(f"j{number}", user, kind, date(2026, 1, day), {"jobKind": kind, "userID": user})


def tallied(after: Matcher | None, before: Matcher | None, jobs: list[StoredJob]) -> dict[str, Any]:
    plugin = PluginTally(PluginType.ACCESS_GATE, after, before)
    assert tally([plugin], jobs) == len(jobs)
    return plugin.to_json()


def test_jobs_are_gained_and_lost_against_the_registered_selector() -> None:
    jobs = [job(3, "TFJob", day=2), job(2, "MPIJob", "bob"), job(1, "TFJob"), job(0, "TaskSet")]
    found = tallied(matcher("TFJob"), matcher("MPIJob", "TFJob"), jobs)
    assert (found["matched"], found["gained"], found["lost"]) == (2, 0, 1)
    assert (found["gainedJobs"], found["lostJobs"]) == ([], ["j2"])
    assert found["byDay"] == [
        {"day": "2026-01-01", "matched": 1, "gained": 0, "lost": 1},
        {"day": "2026-01-02", "matched": 1, "gained": 0, "lost": 0},
    ]
    assert found["byKind"] == [
        {"kind": "TFJob", "matched": 2, "gained": 0, "lost": 0},
        {"kind": "MPIJob", "matched": 0, "gained": 0, "lost": 1},
    ]
    assert [group["userID"] for group in found["byUser"]] == ["ada", "bob"]


def test_all_matched_jobs_of_a_new_plugin_are_gained_and_all_of_a_removed_one_lost() -> None:
    jobs = [job(number) for number in range(30)]
    new, removed = tallied(matcher("TFJob"), None, jobs), tallied(None, matcher("TFJob"), jobs)
    assert (new["registered"], new["matched"], new["gained"], new["lost"]) == (False, 30, 30, 0)
    assert new["gainedJobs"] == [f"j{number}" for number in range(EXAMPLES)]
    assert (removed["removed"], removed["matched"], removed["gained"], removed["lost"]) == (True, 0, 0, 30)
    assert removed["effectiveJobSelector"] is None


def test_only_the_users_with_the_most_jobs_are_named() -> None:
    jobs = [job(number, user=f"u{number}") for number in range(MOST_GROUPS + 5)] + [job(999, user="most")] * 2
    users = tallied(matcher("TFJob"), None, jobs)["byUser"]
    assert (users[0]["userID"], len(users)) == ("most", MOST_GROUPS)


def test_what_is_remembered_of_a_matcher_is_what_it_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(what_if, "_REMEMBERED", 2)
    jobs = [job(number, f"K{number % 5}") for number in range(40)]
    assert tallied(matcher("K1", "K3"), None, jobs)["matched"] == 16


KINDS = ["A", "B", "C"]
JOBS = st.lists(st.builds(job, st.integers(0, 9), st.sampled_from(KINDS), st.sampled_from("xyz"), st.integers(1, 4)))


@given(JOBS, st.sets(st.sampled_from(KINDS), min_size=1), st.sets(st.sampled_from(KINDS), min_size=1))
def test_every_grouping_adds_up_to_all_jobs(jobs: list[StoredJob], after: set[str], before: set[str]) -> None:
    found = tallied(matcher(*after), matcher(*before), jobs)
    kinds = Counter(one.kind for one in jobs)
    assert found["matched"] == sum(kinds[kind] for kind in after)
    assert found["gained"] == sum(kinds[kind] for kind in after - before)
    assert found["lost"] == sum(kinds[kind] for kind in before - after)
    for name in ("matched", "gained", "lost"):
        for groups in ("byDay", "byKind", "byUser"):
            assert sum(group[name] for group in found[groups]) == found[name]
