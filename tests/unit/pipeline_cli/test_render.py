from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from pipeline_cli import render
from pipeline_cli.progress import Progress


def shown(parts: Any, width: int = 200) -> str:
    console = Console(width=width, force_terminal=False, markup=False)
    with console.capture() as capture:
        for part in parts:
            console.print(part)
    return capture.get()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (True, "yes"),
        (False, "no"),
        (0, "0"),
        (1.5, "1.5"),
        ("a", "a"),
        ("a\nb\x1b[31m", "a b [31m"),
        ({"a": ["é"]}, '{"a": ["é"]}'),
    ],
)
def test_a_value_is_one_line_without_control_characters(value: Any, text: str) -> None:
    assert render.plain(value) == text


def test_a_long_name_does_not_widen_a_list() -> None:
    text = shown(render.jobs([{"jobID": "j01", "jobName": "n" * 128, "userID": "u" * 128, "jobKind": "k" * 40}]), 400)
    for cut in ("n" * 39 + "…", "k" * 40, "u" * 39 + "…"):
        assert cut in text.split()
    assert max(map(len, text.splitlines())) < 250


def test_square_brackets_are_no_markup() -> None:
    assert "[red]x[/red]" in shown(render.jobs([{"jobID": "j01", "jobName": "[red]x[/red]"}]))


@pytest.mark.parametrize(
    ("text", "time"), [("2025-01-31T12:00:01.5Z", "2025-01-31 12:00:01Z"), (None, "–"), ("soon", "soon")]
)
def test_a_time_is_shown_to_the_second(text: Any, time: str) -> None:
    assert render.timestamp(text) == time


@pytest.mark.parametrize(
    ("text", "zone", "time"),
    [
        ("2025-10-26T00:30:00Z", "Europe/Berlin", "2025-10-26 02:30:00+02:00"),
        ("2025-10-26T01:30:00Z", "Europe/Berlin", "2025-10-26 02:30:00+01:00"),
        ("2025-01-31T12:00:01Z", "UTC", "2025-01-31 12:00:01Z"),
        ("2025-01-31T12:00:01Z", "Atlantis/Capital", "2025-01-31 12:00:01Z"),
        (None, "Europe/Berlin", "–"),
    ],
)
def test_a_local_time_has_its_offset(text: Any, zone: str, time: str) -> None:
    assert render.local_time(text, zone) == time


@pytest.mark.parametrize(
    ("text", "time"),
    [("2025-01-31T12:00:01.5Z", "12:00:01.500"), ("2025-01-31T12:00:01Z", "12:00:01.000"), (None, "–")],
)
def test_a_time_of_day_has_milliseconds(text: Any, time: str) -> None:
    assert render.clock(text) == time


@pytest.mark.parametrize(("milliseconds", "text"), [(0, "0 ms"), (999, "999 ms"), (1500, "1.5 s"), (None, "")])
def test_a_duration_is_shown_in_its_unit(milliseconds: Any, text: str) -> None:
    assert render.duration(milliseconds) == text


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ({}, ""),
        ({"decision": "pass", "reason": "fine"}, "pass: fine"),
        ({"reason": "resumed", "actor": "ada"}, "resumed, by ada"),
        ({"factors": [{"topic": "priority", "advice": "10", "reason": "admin"}]}, "priority 10 (admin)"),
        ({"patch": [{"op": "add", "path": f"/spec/{n}"} for n in range(6)]}, "add 0, add 1, add 2, add 3, 2 more"),
        ({"factors": [{"topic": "zone", "advice": {"a": 1}, "reason": ""}]}, 'zone {"a": 1}'),
        (
            {"patch": [{"op": "add", "path": "/spec/roles/0"}, {"op": "replace", "path": ""}]},
            "add roles/0, replace the whole",
        ),
    ],
)
def test_a_trail_entry_is_shown_with_its_outcome(entry: dict[str, Any], text: str) -> None:
    assert render.outcome_text(entry) == text


def test_a_job_shows_its_facts_and_replicas_and_leaves_out_what_is_not_there() -> None:
    job = {"id": "j01", "state": "failed", "reason": "RoleFailed", "exitCode": 3, "exitDiagnostics": "a\nb"}
    replica = {"index": 1, "state": "failed", "exitCode": 3, "retriedCount": 0, "exitDiagnostics": "x\nlast\n"}
    text = shown(render.job({"job": job, "tasks": [{"name": "worker", "replicas": [replica]}], "cluster": None}))
    assert "suspended" not in text
    for part in ("j01", "RoleFailed", "worker", "last"):
        assert part in text
    assert "exit code" in text


@pytest.mark.parametrize(
    ("count", "failed", "rows", "says"),
    [
        (100, range(0), 100, None),
        (101, range(0), 100, "1 more replicas are left out; `-o json` shows all."),
        (101, range(100, 101), 101, None),
        (10_000, range(9_990, 10_000), 110, "9890 more replicas are left out"),
        (10_000, range(5_000), 200, "9800 more replicas, 4800 of them failed, are left out"),
    ],
)
def test_of_many_replicas_the_first_and_those_that_failed_are_shown(
    count: int, failed: range, rows: int, says: str | None
) -> None:
    replicas = [{"index": index, "state": "failed" if index in failed else "running"} for index in range(count)]
    lines = shown(render.replicas([{"name": "worker", "replicas": replicas}])).splitlines()
    assert sum(line.startswith("worker") for line in lines) == rows
    assert len(lines) == 1 + rows + bool(says)
    assert (says or "worker") in lines[-1]


def test_a_waiting_job_has_no_replicas_yet() -> None:
    assert "TASK" not in shown(render.job({"job": {"id": "j01", "state": "waiting"}, "tasks": []}))


def test_a_narrow_terminal_cuts_no_id() -> None:
    text = shown(render.jobs([{"jobID": "j" + "0" * 26, "jobName": "n"}]), width=40)
    assert text.replace("\n", "").count("0") == 26


def test_progress_prints_each_event_and_call_once_and_in_order() -> None:
    first = {"state": "waiting", "occurredAt": "2025-01-31T12:00:00Z"}
    second = {"state": "running", "occurredAt": "2025-01-31T12:00:02.25Z"}
    call = {"stage": "gates", "plugin": "K", "outcome": "answered", "startedAt": "2025-01-31T12:00:00.5Z"}
    progress = Progress()
    assert [line.plain for line in progress.new_lines([first], [])] == ["12:00:00.000  waiting"]
    lines = [line.plain.split() for line in progress.new_lines([first, second], [call])]
    assert [line[1] for line in lines] == ["gates", "running"]
    assert progress.new_lines([first, second], [call]) == []


def test_progress_prints_entries_of_a_trail_whose_oldest_were_deleted() -> None:
    calls = [{"stage": "gates", "plugin": "K", "asking": number, "outcome": "answered"} for number in range(3)]
    progress = Progress()
    assert len(progress.new_lines([], calls[:2])) == 2
    assert len(progress.new_lines([], calls[1:])) == 1


def test_progress_survives_an_entry_without_a_time() -> None:
    assert len(Progress().new_lines([{"state": "waiting"}], [{"stage": "gates"}])) == 2


def test_what_a_cluster_ignores_is_shown_with_the_job() -> None:
    about = {"id": "j01", "state": "running"}
    notes = ["spec.roles[0].template.spec.containers[0].resources.limits.cpu has no effect"]
    text = shown(render.job({"job": about, "platformSpecificInfo": {"notes": notes}}))
    assert f"! {notes[0]}" in text
