"""What an alert says to people: its title, and lines of text. Names and reasons come from users: they are cut, and have neither
line breaks nor control characters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pipeline_core.plugins.answers import MAX_REASON
from pipeline_core.plugins.errors import clean

MAX_USERS = 50
"""How many users an alert names."""
_FIELDS = {
    "trigger": "trigger",
    "executionDate": "execution date",
    "startAt": "started at",
    "finishedAt": "finished at",
    "run": "run",
    "creator": "creator",
    "runner": "runner",
}


def title(document: Mapping[str, Any]) -> str:
    """The flow and the state of its run, on one line."""
    return f"{clean(document['flow'])}: {document['state']}"


def lines(document: Mapping[str, Any]) -> Iterator[str]:
    """The lines below the title, without the link."""
    if document["reason"]:
        yield clean(document["reason"], limit=MAX_REASON)
    for name, label in _FIELDS.items():
        if document.get(name):
            yield f"{label}: {clean(str(document[name]))}"
    if users := document["users"]:
        more = ", …" if len(users) > MAX_USERS else ""
        yield f"users: {clean(', '.join(users[:MAX_USERS]), limit=MAX_REASON)}{more}"


def link(document: Mapping[str, Any]) -> str:
    """The URL of the run; "" where the service's own URL is not set."""
    url = str(document["link"])
    return url if url.startswith(("http://", "https://")) else ""
