"""What the document says of requests and answers is true, as far as a machine can find out by itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.installation import Installation
from tests.integration.contract.hooks import PASSWORD

PROFILE = Path(__file__).with_name("schemathesis.toml")
ROOT = Path(__file__).parents[3]
SECONDS = 280
FLOWS = ("flows", "runs", "schedules", "templates")


@pytest.mark.parametrize("choice", ["include", "exclude"])
def test_schemathesis_finds_nothing(api: Installation, tmp_path: Path, choice: str) -> None:
    """Once with the flows alone, once with all else: together they would take too long for one test."""
    api.put("/v1/tokens/admin", {"token": PASSWORD})
    api.password = PASSWORD
    tags = [word for tag in FLOWS for word in (f"--{choice}-tag", tag)]
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(PROFILE), "run", *tags]
    run = subprocess.run(
        [*command, f"{api.url}/openapi.json"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert api.ask("GET", "/v1/audit").status_code == 200
