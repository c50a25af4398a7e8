"""The states of replica attempts that follow from a journal."""

from __future__ import annotations

import pytest

from pipeline_core.clusters.local.journal import Journal, Key, current_fields

KEY = Key(("worker", 2, 1))


def test_a_key_is_a_text_and_back() -> None:
    assert str(KEY) == "worker.2.1"
    assert Key.parse("worker.2.1") == KEY


def test_later_lines_add_to_earlier_ones() -> None:
    journal = Journal()
    for entry in (
        {"boot": "one"},
        {"key": "worker.2.1", "state": "waiting", "claimed": 1.0},
        {"boot": "two"},
        {"key": "worker.2.1", "state": "running", "pid": 7},
    ):
        journal.add(entry)
    assert journal.boot == "two"
    assert journal.attempts[KEY] == {"key": "worker.2.1", "state": "running", "claimed": 1.0, "pid": 7}


CLAIMED = {"state": "waiting", "claimed": 1.0}
RUNNING = {"state": "running", "claimed": 1.0}
ENDED = {"state": "succeeded", "claimed": 1.0, "reason": ""}


@pytest.mark.parametrize(
    ("fields", "stopped", "alive", "same_boot", "expected"),
    [
        # With a supervisor at work, the journal is the truth.
        ({}, False, True, True, ("waiting", None)),
        ({}, True, True, True, ("waiting", None)),
        (RUNNING, True, True, True, ("running", None)),
        (ENDED, True, True, True, ("succeeded", "")),
        # Without one, what was not claimed may still run, unless it was stopped.
        ({}, False, False, False, ("waiting", None)),
        ({}, True, False, False, ("stopped", "Stopped")),
        # What was claimed and had not ended is lost.
        (CLAIMED, False, False, True, ("failed", "SupervisorLost")),
        (RUNNING, False, False, True, ("failed", "SupervisorLost")),
        (RUNNING, False, False, False, ("failed", "HostRestarted")),
        (RUNNING, True, False, False, ("stopped", "Stopped")),
        # What has ended stays so.
        (ENDED, True, False, False, ("succeeded", "")),
    ],
)
def test_the_state_of_a_replica_attempt(
    fields: dict[str, object], stopped: bool, alive: bool, same_boot: bool, expected: tuple[str, str | None]
) -> None:
    found = current_fields(fields, stopped=stopped, supervised=alive, same_boot=same_boot)
    assert (found["state"], found.get("reason")) == expected
