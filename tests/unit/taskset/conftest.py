from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

CASES = Path(__file__).parents[2] / "cases"


@pytest.fixture
def taskset() -> dict[str, Any]:
    """A small TaskSet that a test may change."""
    return copy.deepcopy(json.loads((CASES / "decorations.json").read_text())["base"])
