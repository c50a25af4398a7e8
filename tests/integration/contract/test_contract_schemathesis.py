"""What the document says of requests and answers is true, as far as a machine can find out by itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.installation import Installation
from tests.integration.contract.hooks import PASSWORD

PROFILE = Path(__file__).with_name("schemathesis.toml")
ROOT = Path(__file__).parents[3]
SECONDS = 280


def test_schemathesis_finds_nothing(api: Installation, tmp_path: Path) -> None:
    api.put("/v1/tokens/admin", {"token": PASSWORD})
    api.password = PASSWORD
    run = subprocess.run(
        [sys.executable, "-m", "schemathesis.cli", "--config-file", str(PROFILE), "run", f"{api.url}/openapi.json"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert api.ask("GET", "/v1/audit").status_code == 200
