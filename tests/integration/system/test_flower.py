from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import requests

from pipeline_up.flower import answers, flower
from tests.builders import taskset
from tests.installation import Installation
from tests.plugin_server import PluginServer
from tests.waiting import HANG_SECONDS, wait_for


@pytest.fixture
def watched(service: Installation, tmp_path: Path) -> Iterator[str]:
    """Flower's address, beside an installation; its environment tries to set unsafe options."""
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    asked = {"FLOWER_UNAUTHENTICATED_API": "true", "FLOWER_AUTH": ".*", "FLOWER_ADDRESS": "0.0.0.0"}
    described = flower({**service.environment, **asked}, port, "pass word:1")
    with (tmp_path / "flower.log").open("wb") as log:
        process = subprocess.Popen(described.argv, env=dict(described.env or {}), stdout=log, stderr=log, cwd=tmp_path)
    try:
        wait_for(lambda: answers(port), f"Flower; {(tmp_path / 'flower.log')}")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(HANG_SECONDS)


def test_flower_shows_tasks_with_job_ids_to_those_alone_who_have_the_password(
    service: Installation, watched: str, plugins: PluginServer
) -> None:
    paths = ("/", "/workers", "/tasks", "/broker", "/api/tasks", "/api/workers")
    for credentials in (None, ("admin", "wrong"), ("other", "pass word:1")):
        for path in paths:
            assert requests.get(watched + path, auth=credentials, timeout=HANG_SECONDS).status_code == 401, (
                path,
                credentials,
            )
    assert requests.post(f"{watched}/api/worker/shutdown/celery@x", timeout=HANG_SECONDS).status_code == 401

    right = ("admin", "pass word:1")
    assert requests.get(watched, auth=right, timeout=HANG_SECONDS).status_code == 200
    gate = {
        "pluginType": "AccessGate",
        "callAddress": plugins.plugin("/gate", lambda packet: {"decision": "pass"}),
    }
    service.register("gate", gate)
    job_id = service.submit(taskset())

    def shown() -> bool:
        tasks = requests.get(f"{watched}/api/tasks", auth=right, timeout=HANG_SECONDS).json().values()
        of_job = {task["name"]: task["state"] for task in tasks if job_id in (task["args"] or "")}
        return of_job == {"stage.gates": "SUCCESS", "stage.launch": "SUCCESS"}

    wait_for(shown, "the job's tasks in Flower, also the one that was carried on in place")


def test_flowers_password_is_in_no_command_line() -> None:
    described = flower(dict(os.environ), 5555, "hushhush")
    assert "hushhush" not in " ".join(described.argv)
    assert "--address=127.0.0.1" in described.argv
