from __future__ import annotations

from pathlib import Path

from pipeline_up.logs import rotate, tail


def test_a_full_log_is_rotated_and_the_oldest_lines_are_dropped(tmp_path: Path) -> None:
    log = tmp_path / "api.log"
    for text in ("first", "second", "third"):
        log.write_text(text)
        rotate(log, largest=3, kept=2)
    assert log.read_text() == ""
    assert [(tmp_path / f"api.log.{number}").read_text() for number in (1, 2)] == ["third", "second"]
    assert not (tmp_path / "api.log.3").exists()


def test_a_small_log_is_left_alone(tmp_path: Path) -> None:
    log = tmp_path / "api.log"
    log.write_text("line")
    rotate(log, largest=5)
    assert log.read_text() == "line"


def test_the_tail_of_a_log_begins_with_a_whole_line(tmp_path: Path) -> None:
    log = tmp_path / "api.log"
    log.write_text("".join(f"line {number}\n" for number in range(1000)))
    lines = tail(log).splitlines()
    assert lines[0].startswith("line ")
    assert lines[-1] == "line 999"
