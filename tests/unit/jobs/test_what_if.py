"""Counting which stored jobs a selector would match, against the one that is registered."""

from __future__ import annotations

from collections import Counter
from datetime import date
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pipeline_core.jobs.what_if import EXAMPLES, MOST_GROUPS, JobGroup, PluginTally, fields_of, tally
from pipeline_core.plugins.types import PluginType
from pipeline_core.selectors import Matcher, Selector, compile, parse_selector


def matcher(*kinds: str) -> Matcher:
    """Matches the jobs of these kinds."""
    raw = {
        "conditions": [{"name": "kind", "key": "jobKind", "expect": f"/^({'|'.join(kinds)})$/"}],
        "expression": "kind",
    }
    return compile(parse_selector(raw, "jobSelector") or Selector())


def job(number: int, kind: str = "TFJob", user: str = "ada", day: int = 1) -> JobGroup:
    return JobGroup(user, kind, date(2026, 1, day), {"jobKind": kind, "userID": user}, 1, [f"j{number:03}"])


def tallied(after: Matcher | None, before: Matcher | None, jobs: list[JobGroup]) -> dict[str, Any]:
    plugin = PluginTally(PluginType.ACCESS_GATE, after, before)
    assert tally([plugin], jobs) == len(jobs)
    return plugin.to_json()


def test_jobs_are_gained_and_lost_against_the_registered_selector() -> None:
    jobs = [job(3, "TFJob", day=2), job(2, "MPIJob", "bob"), job(1, "TFJob"), job(0, "TaskSet")]
    found = tallied(matcher("TFJob"), matcher("MPIJob", "TFJob"), jobs)
    assert (found["matched"], found["gained"], found["lost"]) == (2, 0, 1)
    assert (found["gainedJobs"], found["lostJobs"]) == ([], ["j002"])
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
    assert new["gainedJobs"] == [f"j{number:03}" for number in range(29, 29 - EXAMPLES, -1)]
    assert (removed["removed"], removed["matched"], removed["gained"], removed["lost"]) == (True, 0, 0, 30)
    assert removed["effectiveJobSelector"] is None


def test_only_the_users_with_the_most_jobs_are_named() -> None:
    jobs = [job(number, user=f"u{number}") for number in range(MOST_GROUPS + 5)] + [job(999, user="most")] * 2
    users = tallied(matcher("TFJob"), None, jobs)["byUser"]
    assert (users[0]["userID"], len(users)) == ("most", MOST_GROUPS)


def test_a_group_counts_for_all_its_jobs_and_names_the_latest() -> None:
    many = JobGroup(
        "ada", "TFJob", date(2026, 1, 1), {"jobKind": "TFJob"}, 1000, [f"j{n}" for n in range(500, 480, -1)]
    )
    plugin = PluginTally(PluginType.ACCESS_GATE, matcher("TFJob"), None)
    assert tally([plugin], [many, job(490), job(999)]) == 1002
    found = plugin.to_json()
    assert found["matched"] == 1002
    assert found["gainedJobs"] == [
        "j999",
        *(f"j{n}" for n in range(500, 490, -1)),
        *("j490", "j490"),
        *(f"j{n}" for n in range(489, 482, -1)),
    ]


def test_the_fields_are_those_that_any_selector_looks_at() -> None:
    raw = {"conditions": [{"name": "team", "key": "labels.team", "expect": "a"}], "expression": "team && jobName"}
    other = compile(parse_selector(raw, "jobSelector") or Selector())
    plugins = [PluginTally(PluginType.ACCESS_GATE, other, matcher("A")), PluginTally(PluginType.LIFE_HOOK, None, None)]
    assert fields_of(plugins) == {"labels", "labels.team", "jobName", "jobKind"}
    assert fields_of(plugins[1:]) == frozenset()


KINDS = ["A", "B", "C"]
JOBS = st.lists(st.builds(job, st.integers(0, 9), st.sampled_from(KINDS), st.sampled_from("xyz"), st.integers(1, 4)))


@given(JOBS, st.sets(st.sampled_from(KINDS), min_size=1), st.sets(st.sampled_from(KINDS), min_size=1))
def test_every_grouping_adds_up_to_all_jobs(jobs: list[JobGroup], after: set[str], before: set[str]) -> None:
    found = tallied(matcher(*after), matcher(*before), jobs)
    kinds = Counter(one.kind for one in jobs)
    assert found["matched"] == sum(kinds[kind] for kind in after)
    assert found["gained"] == sum(kinds[kind] for kind in after - before)
    assert found["lost"] == sum(kinds[kind] for kind in before - after)
    for name in ("matched", "gained", "lost"):
        for groups in ("byDay", "byKind", "byUser"):
            assert sum(group[name] for group in found[groups]) == found[name]
