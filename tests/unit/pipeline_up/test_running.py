from __future__ import annotations

import json
import os
from pathlib import Path

from pipeline_up import os_processes, running


def record(directory: Path, *, started: int, boot: str) -> None:
    (directory / "run").mkdir()
    entry = {"pid": os.getpid(), "started": started, "stop": "SIGTERM"}
    (directory / "run" / "processes.json").write_text(
        json.dumps({"boot": boot, "run": "r", "processes": {"api": entry}})
    )


def test_no_installation_runs_in_an_empty_directory(tmp_path: Path) -> None:
    assert running.environment(tmp_path) == {}


def test_records_of_another_boot_or_process_are_old(tmp_path: Path) -> None:
    me = os_processes.find(os.getpid())
    assert me
    for number, (started, boot) in enumerate([(me.started, "another"), (me.started + 1, os_processes.boot_id())]):
        directory = tmp_path / str(number)
        directory.mkdir()
        record(directory, started=started, boot=boot)
        assert running.environment(directory) == {}
