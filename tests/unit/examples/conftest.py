from __future__ import annotations

import sys
from pathlib import Path

# The examples are scripts that find each other beside themselves.
sys.path.insert(0, str(Path(__file__).parents[3] / "examples" / "plugins"))
