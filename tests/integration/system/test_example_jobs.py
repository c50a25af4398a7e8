"""The example jobs of Kubeflow's kinds, with the example plugins, on the local cluster."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from tests.installation import Installation
from tests.waiting import HANG_SECONDS, wait_for

EXAMPLES = Path(__file__).parents[3] / "examples"
KINDS = ("tfjob", "pytorchjob", "mpijob")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@pytest.fixture
def translators(service: Installation, tmp_path: Path) -> Iterator[Installation]:
    """The installation, with the example translators registered."""
    port = free_port()
    with (tmp_path / "plugins.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, str(EXAMPLES / "plugins" / "server.py"), "--port", str(port)], stdout=log, stderr=log
        )
    try:
        wait_for(lambda: _answers(port), "the example plugins")
        for kind in KINDS:
            text = (EXAMPLES / "features" / f"{kind}.yaml").read_text().replace(":9100/", f":{port}/")
            feature = yaml.safe_load(text)
            service.post("/v1/features", feature)
            service.put(f"/v1/features/turn-on/{feature['name']}")
        yield service
    finally:
        process.terminate()
        process.wait()


def _answers(port: int) -> bool:
    try:
        return requests.get(f"http://127.0.0.1:{port}/received", timeout=2).status_code == 200
    except requests.ConnectionError:
        return False


def run(service: Installation, name: str, **replaced: str) -> tuple[list[str], dict[str, list[str]]]:
    """Run an example; the lines of its log, and the states of each role's replicas."""
    text = (EXAMPLES / "jobs" / f"{name}.yaml").read_text()
    for old, new in replaced.items():
        text = text.replace(old.removeprefix("_"), new)
    job_id = service.submit(yaml.safe_load(text))
    job = service.wait_state(job_id, "succeeded", "failed", "stopped")
    log = service.ask("GET", f"/v1/job/logs/{job_id}").text
    assert job["state"] == "succeeded", f"{job}\n{log}"
    roles: Any = service.get(f"/v1/job/detail/{job_id}")["tasks"]
    states = {role["name"]: [replica["state"] for replica in role["replicas"]] for role in roles}
    return log.splitlines(), states


def test_the_ranks_of_a_pytorchjob_meet(translators: Installation) -> None:
    port = free_port()
    log, states = run(translators, "pytorchjob", _23456=str(port))
    assert any(f"met [0, 1, 2] at 127.0.0.1:{port}" in line for line in log)
    assert states["master"] == ["succeeded"]


def test_an_mpijob_s_launcher_knows_its_workers_which_are_stopped_when_it_is_done(translators: Installation) -> None:
    log, states = run(translators, "mpijob")
    assert sum("127.0.0.1 slots=2" in line for line in log) == 2
    assert states["launcher"] == ["succeeded"]
    assert "succeeded" not in states["worker"]


def test_a_tfjob_s_replicas_know_each_other(translators: Installation) -> None:
    log, states = run(translators, "tfjob")
    assert any('"worker":["127.0.0.1:2223","127.0.0.1:2224"]' in line for line in log)
    assert states["chief"] == ["succeeded"]


def test_the_first_commands_of_the_page_run_as_they_are_written(service: Installation, tmp_path: Path) -> None:
    """Those of its third terminal, with the ports of this test."""
    page = (EXAMPLES / "README.md").read_text()
    script = re.findall(r"^```sh\n(.*?)^```", page, re.S | re.M)[2]
    port = free_port()
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    for file in (tmp_path / "examples" / "features").glob("*.yaml"):
        file.write_text(file.read_text().replace(":9100/", f":{port}/"))
    binaries = tmp_path / "bin"
    binaries.mkdir()
    command = binaries / "pipeline"
    command.write_text(f"#!/bin/sh\nexec {sys.executable} -c 'from pipeline_cli import main; main()' \"$@\"\n")
    command.chmod(0o755)
    script = script.replace(". .venv/bin/activate\n", "").replace(":9100/", f":{port}/")
    with (tmp_path / "plugins.log").open("wb") as log:
        plugins = subprocess.Popen(
            [sys.executable, str(EXAMPLES / "plugins" / "server.py"), "--port", str(port)], stdout=log, stderr=log
        )
    try:
        wait_for(lambda: _answers(port), "the example plugins")
        done = subprocess.run(
            ["bash", "-ec", script],
            cwd=tmp_path,
            env={
                "PATH": f"{binaries}:{os.environ['PATH']}",
                "PYTHONPATH": str(EXAMPLES.parent),
                "PIPELINE_URL": service.url,
            },
            capture_output=True,
            text=True,
            timeout=HANG_SECONDS,
            check=False,
        )
    finally:
        plugins.terminate()
        plugins.wait()
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"succeeded"' in done.stdout.splitlines()[-1], done.stdout


def test_the_feature_for_volcano_can_be_registered(service: Installation) -> None:
    feature = yaml.safe_load((EXAMPLES / "volcano" / "feature.yaml").read_text())
    service.post("/v1/features", feature)
    found = service.get("/v1/features/detail/volcano")
    assert [plugin["pluginType"] for plugin in found["plugins"]] == ["SchedulerBinder", "LifeHook"]
