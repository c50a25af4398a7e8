"""A walk by cursor through a list that others change meanwhile."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import delete

from pipeline_core.common.clock import now
from pipeline_core.common.ids import new_job_id
from pipeline_core.database import transaction
from pipeline_core.database.models import Job


def insert(count: int) -> list[str]:
    """New jobs, submitted now."""
    made = []
    with transaction() as session:
        for _ in range(count):
            moment = now()
            job = Job(id=new_job_id(moment), user_id="ada", name="n", kind="K", namespace="default", state="waiting",
                      stage="translate", created_at=moment)  # fmt: skip
            session.add(job)
            made.append(job.id)
    return made


def remove(job_ids: list[str]) -> None:
    with transaction() as session:
        session.execute(delete(Job).where(Job.id.in_(job_ids)))


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("seed", range(6))
def test_every_job_that_is_there_throughout_is_seen_once_and_in_order(admin: Any, order: str, seed: int) -> None:
    chance = random.Random(seed)
    there = insert(23)
    throughout, later = set(there), set[str]()
    seen: list[str] = []
    cursor = ""
    while cursor is not None:
        answer = admin(
            "GET", f"/v1/job/list?order={order}&pageSize={chance.randint(1, 5)}{cursor and '&cursor='}{cursor}"
        )
        page = [job["jobID"] for job in answer.json["payload"]]
        seen += page
        cursor = answer.headers.get("X-Next-Cursor")
        later.update(insert(chance.randint(0, 2)) if len(seen) < 40 else [])
        # Any of them may go, also the very one that the cursor stands at.
        gone = chance.sample(sorted(throughout), min(len(throughout), chance.randint(0, 2)))
        gone += page[-1:] if chance.random() < 0.5 else []
        remove(gone)
        throughout -= set(gone)
    assert len(seen) == len(set(seen))
    assert seen == sorted(seen, reverse=order == "desc")
    assert throughout <= set(seen)
    assert set(seen) <= set(there) | later
    if order == "desc":
        assert not later & set(seen), "what is submitted during the walk stands before its beginning"


def test_a_cursor_keeps_its_filters_and_refuses_to_stand_beside_a_page(admin: Any) -> None:
    insert(3)
    cursor = admin("GET", "/v1/job/list?pageSize=1&userID=ada").headers["X-Next-Cursor"]
    assert len(admin.payload("GET", f"/v1/job/list?userID=ada&cursor={cursor}")) == 2
    assert admin.payload("GET", f"/v1/job/list?userID=bob&cursor={cursor}") == []
    refused = admin("GET", f"/v1/job/list?cursor={cursor}&pageNumber=2")
    assert (refused.status_code, refused.json["code"]) == (400, "WRONG_PARAM")


def test_a_range_of_time_and_a_cursor_go_together(admin: Any) -> None:
    insert(3)
    soon = int((now() + timedelta(hours=1)).timestamp())
    cursor = admin("GET", f"/v1/job/list?pageSize=1&endAt={soon}").headers["X-Next-Cursor"]
    assert len(admin.payload("GET", f"/v1/job/list?endAt={soon}&cursor={cursor}")) == 2
    assert admin.payload("GET", f"/v1/job/list?startAt={soon}&cursor={cursor}") == []
