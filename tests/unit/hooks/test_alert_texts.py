"""What an alert says to people."""

from __future__ import annotations

from typing import Any

from pipeline_core.hooks.alert_texts import MAX_USERS, lines, link, title
from pipeline_core.plugins.answers import MAX_REASON


def alert(**fields: Any) -> dict[str, Any]:
    return {
        "run": "r01", "flow": "nightly", "trigger": "schedule", "executionDate": "2026-03-01T00:00:00Z",
        "state": "failed", "reason": "task train: exit code 3", "users": ["ada", "bob"], "creator": "ada",
        "runner": "ada", "createdAt": "2026-03-01T00:00:01Z", "startAt": "2026-03-01T00:00:02Z", "finishedAt": None,
        "sequence": 2, "link": "https://pipeline.example/v1/runs/r01", **fields,
    }  # fmt: skip


def test_an_alert_says_what_became_of_which_run() -> None:
    assert title(alert()) == "nightly: failed"
    assert list(lines(alert())) == [
        "task train: exit code 3",
        "trigger: schedule",
        "execution date: 2026-03-01T00:00:00Z",
        "started at: 2026-03-01T00:00:02Z",
        "run: r01",
        "creator: ada",
        "runner: ada",
        "users: ada, bob",
    ]


def test_what_users_named_is_on_one_line_and_cut() -> None:
    hostile = "x\r\nBcc: eve@evil.example\n\n<b>\x00\ud800\u202e"
    found = alert(flow=hostile + "f" * 5000, reason=hostile + "r" * 50000, users=[hostile] * 5000, creator=hostile)
    texts = [title(found), *lines(found)]
    assert all(text.isprintable() for text in texts)
    assert max(map(len, texts)) < MAX_REASON + 20
    assert texts[-1].endswith(", …")


def test_as_many_users_are_named_as_fit() -> None:
    users = [f"u{number}" for number in range(MAX_USERS)]
    assert [*lines(alert(users=users))][-1] == "users: " + ", ".join(users)


def test_a_link_leads_to_the_run_only_where_the_service_s_url_is_known() -> None:
    assert link(alert()) == "https://pipeline.example/v1/runs/r01"
    assert link(alert(link="/v1/runs/r01")) == ""
