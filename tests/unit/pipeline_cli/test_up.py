from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from pipeline_cli import up


@pytest.mark.parametrize("problems", [[], ["Limits of memory and CPU are not enforced: [Errno 13] Permission denied."]])
def test_a_run_on_this_machine_says_what_it_cannot_do(monkeypatch: pytest.MonkeyPatch, problems: list[str]) -> None:
    monkeypatch.setattr(up, "shortcomings", lambda: problems)
    console = Console(record=True, width=200)
    up._welcome(console, SimpleNamespace(logs=Path("/data/logs")), SimpleNamespace(url="http://here"))  # type: ignore[arg-type]
    assert console.export_text().splitlines()[-1 - len(problems) :] == [
        "Jobs run as processes of this machine: images are not used.",
        *problems,
    ]
