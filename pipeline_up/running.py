"""The installation that runs in a data directory, for commands that look at it from beside."""

from __future__ import annotations

import json
from pathlib import Path

from pipeline_up import os_processes


def environment(data_dir: Path) -> dict[str, str]:
    """The environment of the service's processes that `pipeline up` has started in this data directory; empty when none runs, or
    they are another account's."""
    try:
        record = json.loads((data_dir / "run" / "processes.json").read_text())
    except (OSError, ValueError):
        return {}
    if record["boot"] != os_processes.boot_id():
        return {}
    for entry in record["processes"].values():
        process = os_processes.find(entry["pid"])
        if process is not None and process.started == entry["started"]:
            found = os_processes.environment(process.pid)
            if "PIPELINE_DATABASE_URL" in found:
                return found
    return {}
