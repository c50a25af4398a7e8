"""Pictures of the main pages. With PIPELINE_PICTURES=docs/images they are written there, for the docs."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path

from tests.console.browser import Browser
from tests.console.scenario import Scenario

SIZE = (1280, 800)
PICTURES = {
    "console-home": ("/", ".rows .state"),
    "console-jobs": ("/jobs", "tbody tr"),
    "console-job-suspended": ("/jobs/{suspended}", ".blame tr"),
    "console-job-replicas": ("/jobs/{hundred}", ".log-row"),
    "console-job": ("/jobs/{decorated}", ".blame tr"),
}


def test_pictures_of_the_main_pages(admin: Browser, stories: Scenario, tmp_path: Path) -> None:
    folder = Path(os.environ.get("PIPELINE_PICTURES", tmp_path))
    admin.look(size=SIZE)
    for name, (path, there) in PICTURES.items():
        admin.open(path.format(**asdict(stories)))
        admin.find(there)
        admin.find(".live-live")
        admin.picture(folder / f"{name}.png")
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
