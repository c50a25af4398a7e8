"""The search over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import text

from pipeline_core.auth.actor import Actor
from pipeline_core.auth.privileges import Privilege
from pipeline_core.database import transaction
from pipeline_core.database.engine import engine
from pipeline_core.jobs import search
from tests import builders

PREFIX = "/v1/search?prefix="


def _names(found: Any) -> list[str]:
    return [job["jobName"] for job in found["jobs"]]


def test_jobs_are_found_by_their_ids_in_any_case(admin: Any) -> None:
    first, second = admin.submit(), admin.submit()
    assert [job["jobID"] for job in admin.payload("GET", PREFIX + first.upper())["jobs"]] == [first]
    assert [job["jobID"] for job in admin.payload("GET", PREFIX + first[:6])["jobs"]] == [second, first]


def test_jobs_of_exactly_the_name_come_first_and_then_the_others_backwards(admin: Any) -> None:
    for name in ("mnist-1", "mnist", "mnist-2", "mn", "other", "Mnist"):
        admin.submit(name=name)
    assert _names(admin.payload("GET", PREFIX + "mnist")) == ["mnist", "mnist-2", "mnist-1"]
    assert _names(admin.payload("GET", PREFIX + "mnist&limit=2")) == ["mnist", "mnist-2"]
    assert _names(admin.payload("GET", PREFIX + "%")) == []


def test_one_character_is_no_beginning_of_an_id(admin: Any) -> None:
    admin.submit(name="mnist")
    admin.submit(name="job-7")
    assert _names(admin.payload("GET", PREFIX + "j")) == ["job-7"]


def test_runs_flows_and_features_are_found(admin: Any) -> None:
    entry = builders.flow_entry("Daily_Sales", {"load": []})
    admin.payload("POST", "/v1/flows", json=entry)
    run_id = admin.payload("POST", "/v1/flows/daily-sales/run")["runID"]
    admin.payload("POST", "/v1/features", json=builders.feature("daily-quota"))
    found = admin.payload("GET", PREFIX + "daily")
    assert [flow["name"] for flow in found["flows"]] == ["Daily_Sales"]
    assert [feature["name"] for feature in found["features"]] == ["daily-quota"]
    assert [flow["name"] for flow in admin.payload("GET", PREFIX + "DAILY-s")["flows"]] == ["Daily_Sales"]
    assert [run["id"] for run in admin.payload("GET", PREFIX + run_id[:8])["runs"]] == [run_id]


def test_a_token_finds_what_it_may_read(admin: Any, bearer: Callable[..., Any]) -> None:
    admin.submit(name="daily")
    admin.payload("POST", "/v1/features", json=builders.feature("daily-quota"))
    jobs = bearer(Privilege.READ_JOB).payload("GET", PREFIX + "daily")
    assert (len(jobs["jobs"]), jobs["features"]) == (1, [])
    features = bearer(Privilege.READ_FEATURE).payload("GET", PREFIX + "daily")
    assert (features["jobs"], len(features["features"])) == ([], 1)


def test_an_own_only_token_finds_nothing_of_others(admin: Any, bearer: Callable[..., Any]) -> None:
    own, other = admin.submit(user="ada", name="daily-1"), admin.submit(user="bob", name="daily-2")
    mine = bearer(Privilege.READ_JOB, Privilege.WRITE_JOB, own_only=True)
    admin.payload("POST", "/v1/flows", json=builders.flow_entry("daily", {"load": []}))
    theirs = admin.payload("POST", "/v1/flows/daily/run")["runID"]
    mine.payload("POST", "/v1/flows", json=builders.flow_entry("daily-own", {"load": []}))
    run_id = mine.payload("POST", "/v1/flows/daily-own/run")["runID"]
    found = mine.payload("GET", PREFIX + "daily")
    assert [job["jobID"] for job in found["jobs"]] == [own]
    assert [flow["name"] for flow in found["flows"]] == ["daily-own"]
    assert [run["id"] for run in mine.payload("GET", PREFIX + "r0")["runs"]] == [run_id]
    assert mine.payload("GET", PREFIX + theirs)["runs"] == mine.payload("GET", PREFIX + other)["jobs"] == []


def test_no_query_reads_the_whole_table_of_jobs(admin: Any) -> None:
    admin.submit()
    plans = []
    with transaction() as session:
        session.execute(text("SET LOCAL enable_seqscan = off"))
        session.execute(text("SET LOCAL enable_sort = off"))
        for actor in (Actor(name="ada"), Actor(name="ada", own_only=True)):
            for query in search._queries("mnist", actor):
                written = query.limit(10).compile(engine(), compile_kwargs={"literal_binds": True})
                plans.append("\n".join(session.execute(text(f"EXPLAIN {written}".replace(":", "\\:"))).scalars()))
    assert len(plans) == 5
    for plan in plans:
        assert "Seq Scan on jobs" not in plan, plan
    # In the order of the index: no more rows are read than are shown.
    assert "Sort" not in plans[1] + plans[2]
    assert "ix_jobs_name_prefix" in plans[1]
    assert "ix_jobs_name_prefix" in plans[2]


@pytest.mark.parametrize("query", ["", "prefix=", "prefix=x&limit=0", "prefix=x&limit=51", "prefix=x&q=x"])
def test_a_bad_query_is_refused(admin: Any, query: str) -> None:
    assert admin("GET", f"/v1/search?{query}").status_code == 400
