"""What the document says of requests and answers is true, as far as a machine can find out by itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.installation import Installation
from tests.integration.contract.hooks import PASSWORD
from tests.waiting import HANG_SECONDS, wait_for

PROFILE = Path(__file__).with_name("schemathesis.toml")
ROOT = Path(__file__).parents[3]
FLOWS = ("flows", "runs", "schedules", "templates")


@pytest.mark.parametrize("choice", ["include", "exclude"])
def test_schemathesis_finds_nothing(api: Installation, tmp_path: Path, choice: str) -> None:
    """Once with the flows alone, once with all else: together they would take too long for one test."""
    api.put("/v1/tokens/admin", {"token": PASSWORD})
    api.password = PASSWORD
    tags = [word for tag in FLOWS for word in (f"--{choice}-tag", tag)]
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(PROFILE), "run", *tags]
    output, log = tmp_path / "output", api.directory / "api.log"
    with output.open("wb") as written:
        run = subprocess.Popen(
            [*command, f"{api.url}/openapi.json"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=written,
            stderr=subprocess.STDOUT,
        )
        try:
            wait_for(lambda: run.poll() is not None, "schemathesis", progress=lambda: log.stat().st_size)
        finally:
            run.kill()
            run.wait(HANG_SECONDS)
    assert run.returncode == 0, output.read_text(errors="replace")
    assert api.ask("GET", "/v1/audit").status_code == 200
