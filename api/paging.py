"""Pages of lists: limit and offset of a request, cursors, and the paging headers of a response."""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline_core.errors import WrongParameter
from pipeline_core.jobs.queries import Total

DEFAULT_SIZE = 20
MAX_SIZE = 500
MAX_NUMBER = 10**9

_CURSOR = re.compile(r"(j[0-9a-z]{26})\.(\d{1,9})\.([01])")


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list, as a view returns it. `number` is None for a page that was requested by cursor."""

    items: Sequence[Any]
    total: Total
    size: int
    number: int | None = 1
    next_cursor: str | None = None

    @property
    def headers(self) -> dict[str, str]:
        headers = {"X-Total-Count": str(self.total.count), "X-Pagination": json.dumps(self._pagination())}
        if not self.total.exact:
            headers["X-Total-Count-Exact"] = "false"
        if self.next_cursor:
            headers["X-Next-Cursor"] = self.next_cursor
        return headers

    def _pagination(self) -> dict[str, int]:
        pages = math.ceil(self.total.count / self.size)
        found = {"total": self.total.count, "total_pages": pages, "page_size": self.size}
        if self.number is None or not pages:
            return found
        found |= {"first_page": 1, "last_page": pages, "page": self.number}
        if self.number > 1:
            found["previous_page"] = min(self.number - 1, pages)
        if self.number < pages:
            found["next_page"] = self.number + 1
        return found


def limit_and_offset(query: Mapping[str, Any]) -> tuple[int, int]:
    """Limit and offset of the page that a query asks for."""
    size: int = query["pageSize"]
    return size, (query["pageNumber"] - 1) * size


def page(items: Sequence[Any], counted: int, query: Mapping[str, Any]) -> Page:
    """A page of a list whose length was counted with `count_up_to`."""
    return Page(items, Total.of(counted), query["pageSize"], query["pageNumber"])


def page_or_all(items: Sequence[Any], query: Mapping[str, Any]) -> Page:
    """The requested page of a list that is in memory; the whole list when the query requests no page."""
    if "pageSize" not in query and "pageNumber" not in query:
        return Page(items, Total(len(items)), max(len(items), 1))
    asked = {"pageSize": DEFAULT_SIZE, "pageNumber": 1, **query}
    limit, offset = limit_and_offset(asked)
    return Page(items[offset : offset + limit], Total(len(items)), asked["pageSize"], asked["pageNumber"])


def encode_cursor(last: str, total: Total) -> str:
    """The cursor of the page after the job `last`. It contains the total, so that jobs are counted only once."""
    text = f"{last}.{total.count}.{int(total.exact)}"
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode_cursor(cursor: str) -> tuple[str, Total]:
    """The last job of the previous page, and the total. Raises WrongParameter unless `encode_cursor` made the cursor."""
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode("ascii")
    except (binascii.Error, ValueError):
        text = ""
    if not (match := _CURSOR.fullmatch(text)):
        raise WrongParameter(f'cursor is "{cursor[:60]}"; it must be an X-Next-Cursor of an earlier answer.')
    last, count, exact = match.groups()
    return last, Total(int(count), exact == "1")
