"""Pictures of the main pages. With PIPELINE_PICTURES=docs/images they are written there, for the docs."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path

from tests.console.browser import Browser
from tests.console.scenario import Flows, Scenario

SIZE = (1280, 800)
PICTURES = {
    "console-home": ("/", ".rows .state"),
    "console-jobs": ("/jobs", "tbody tr"),
    "console-job-suspended": ("/jobs/{suspended}", ".blame tr"),
    "console-job-replicas": ("/jobs/{hundred}", ".log-row"),
    "console-job": ("/jobs/{decorated}", ".blame tr"),
    "console-decisions": ("/decisions", ".suspended"),
    "console-submit": ("/submit", ".stage"),
    "console-plugins": ("/plugins", ".broken .waiting-jobs a"),
    "console-operations": ("/operations", ".verdict h2"),
    "console-flow": ("/flows/sales", ".grid-row"),
    "console-run": ("/runs/{failed}", ".tail[role=region]"),
    "console-graph": ("/runs/{failed}?view=graph&task=clean", ".graph-node"),
    "console-editor": ("/flows/sales/edit", ".graph-node"),
}

PRESSED = {"console-submit": "TaskSet"}
"""The button that is pressed before the picture is made."""


def test_pictures_of_the_main_pages(admin: Browser, stories: Scenario, flows: Flows, tmp_path: Path) -> None:
    folder = Path(os.environ.get("PIPELINE_PICTURES", tmp_path))
    admin.look(size=SIZE)
    for name, (path, there) in PICTURES.items():
        admin.open(path.format(**asdict(stories), **asdict(flows)))
        if name in PRESSED:
            admin.find(".page-head button", PRESSED[name]).click()
        admin.find(there)
        admin.find(".live-live")
        admin.picture(folder / f"{name}.png")
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
