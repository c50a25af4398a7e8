from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api import paging
from api.paging import Page
from pipeline_core.errors import WrongParameter
from pipeline_core.jobs.queries import Total

JOB_IDS = st.text("0123456789abcdefghjkmnpqrstvwxyz", min_size=26, max_size=26).map("j{}".format)
TOTALS = st.builds(Total, st.integers(0, 10_000), st.booleans())


def pagination(page: Page) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(page.headers["X-Pagination"])
    return found


@given(JOB_IDS, TOTALS)
def test_a_cursor_is_read_as_it_was_written(last: str, total: Total) -> None:
    assert paging.decode_cursor(paging.encode_cursor(last, total)) == (last, total)


@given(st.text())
def test_a_forged_cursor_is_refused(text: str) -> None:
    with pytest.raises(WrongParameter, match="cursor is"):
        paging.decode_cursor(text)


def test_headers_give_the_position_of_a_page() -> None:
    page = Page([], Total(41), 20, 2)
    assert page.headers["X-Total-Count"] == "41"
    assert "X-Total-Count-Exact" not in page.headers
    assert "X-Next-Cursor" not in page.headers
    assert pagination(page) == {
        "total": 41,
        "total_pages": 3,
        "page_size": 20,
        "first_page": 1,
        "last_page": 3,
        "page": 2,
        "previous_page": 1,
        "next_page": 3,
    }


def test_a_total_that_is_not_exact_says_so() -> None:
    assert Page([], Total.of(10_001), 20).headers["X-Total-Count-Exact"] == "false"
    assert Page([], Total.of(10_001), 20).headers["X-Total-Count"] == "10000"
    assert "X-Total-Count-Exact" not in Page([], Total.of(10_000), 20).headers


def test_pages_at_and_beyond_the_ends_name_only_pages_that_there_are() -> None:
    assert "previous_page" not in pagination(Page([], Total(41), 20, 1))
    assert "next_page" not in pagination(Page([], Total(41), 20, 3))
    assert pagination(Page([], Total(41), 20, 9))["previous_page"] == 3
    assert pagination(Page([], Total(0), 20, 1)) == {"total": 0, "total_pages": 0, "page_size": 20}


def test_a_page_by_cursor_has_no_number() -> None:
    assert "page" not in pagination(Page([], Total(41), 20, None, "abc"))
    assert Page([], Total(41), 20, None, "abc").headers["X-Next-Cursor"] == "abc"


def test_a_list_in_memory_is_paged_only_when_a_page_is_requested() -> None:
    items = list(range(30))
    assert paging.page_or_all(items, {}).items == items
    assert paging.page_or_all(items, {"pageNumber": 2}).items == items[20:]
    assert paging.page_or_all(items, {"pageSize": 7}).items == items[:7]
    assert paging.page_or_all(items, {"pageSize": 7, "pageNumber": 5}).items == items[28:]
    assert paging.page_or_all([], {}).headers["X-Total-Count"] == "0"
