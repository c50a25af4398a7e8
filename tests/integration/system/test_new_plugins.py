"""`pipeline plugin new`, as a whole: each plugin is written, tested, started, checked and registered."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pipeline_cli import main
from pipeline_cli.exits import Exit
from pipeline_cli.new import Language
from pipeline_core.plugins.types import PluginType
from tests.builders import taskset
from tests.installation import Installation
from tests.waiting import wait_for

SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
NEEDED = {
    Language.PYTHON: (),
    Language.NODE: ("node",),
    Language.GO: ("go",),
    Language.SHELL: ("bash", "jq", "openssl", "perl"),
}
TEST: dict[Language, list[str]] = {
    Language.PYTHON: [sys.executable, "-m", "unittest"],
    Language.NODE: ["node", "--test"],
    Language.GO: ["go", "test", "./..."],
    Language.SHELL: ["./test.sh"],
}
START: dict[Language, list[str]] = {
    Language.PYTHON: [sys.executable, "-m", "pipeline_plugin", "plugin:plugin", "--port", "0"],
    Language.NODE: ["node", "server.js", "0"],
    Language.GO: ["./plugin", "0"],
    Language.SHELL: ["./server.sh", "0"],
}

Run = Callable[..., tuple[subprocess.Popen[str], str]]


@pytest.fixture
def run() -> Iterator[Run]:
    """Starts a plugin that prints where it listens; the process, and its address."""
    processes: list[subprocess.Popen[str]] = []

    def begin(directory: Path, command: list[str]) -> tuple[subprocess.Popen[str], str]:
        process = subprocess.Popen(
            command,
            cwd=directory,
            env={**os.environ, "PLUGIN_SIGNING_SECRET": SECRET},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        processes.append(process)
        assert process.stdout
        return process, process.stdout.readline().split()[-1]

    yield begin
    for process in processes:
        process.kill()
        process.communicate()


def written(directory: Path, kind: PluginType, language: Language) -> Path:
    """A new plugin, if what its language needs is on this machine."""
    if missing := [program for program in NEEDED[language] if not shutil.which(program)]:
        pytest.skip(f"a plugin in {language} needs {', '.join(missing)}")
    name = f"{language}-{kind.lower()}"
    result = CliRunner().invoke(main, ["plugin", "new", name, "--type", str(kind), "--lang", str(language)])
    assert result.exit_code == Exit.OK, result.output
    return directory / name


@pytest.mark.parametrize("language", Language)
@pytest.mark.parametrize("kind", PluginType)
def test_a_new_plugin_is_tested_started_checked_and_registered(
    kind: PluginType,
    language: Language,
    service: Installation,
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    directory = written(tmp_path, kind, language)
    tested = subprocess.run(TEST[language], cwd=directory, capture_output=True, text=True)
    assert tested.returncode == 0, tested.stdout + tested.stderr
    if language is Language.GO:
        subprocess.run(["go", "build", "-o", "plugin", "."], cwd=directory, check=True)
    process, address = run(directory, START[language])

    feature = json.loads((directory / "feature.json").read_text())
    feature["plugins"][0]["callAddress"] = address
    service.post("/v1/features", {**feature, "signingSecret": SECRET})
    service.put(f"/v1/features/turn-on/{feature['name']}")
    if kind is PluginType.TEMPLATE_TRANSLATOR:
        job: Any = {"kind": "Script", "image": "busybox", "run": "true"}
        submission = {"userID": "ann", "jobName": "script", "jobKind": "Script", "job": job}
        job_id = service.post("/v1/job", submission)["jobID"]
    else:
        job_id = service.submit(taskset())
    service.wait_state(job_id, "succeeded")
    outcomes = {entry["plugin"]: entry["outcome"] for entry in service.get(f"/v1/job/trail/{job_id}")}
    key = f"{kind}.{feature['name']}.{feature['author']}"
    if kind is PluginType.LIFE_HOOK:
        deliveries = f"/v1/hooks/deliveries?plugin={key}&jobID={job_id}&status=delivered"
        wait_for(lambda: len(service.get(deliveries)) == 3, "waiting, running and succeeded to be delivered")
    else:
        assert outcomes == {key: "answered"}

    packet = ["--packet", str(directory / "packet.json")] if kind is PluginType.TEMPLATE_TRANSLATOR else []
    options = ["--type", str(kind), "--signing-secret", SECRET, "--pid", str(process.pid), "--json", *packet]
    # Each call of a plugin in shell starts several processes.
    options += ["--timeout", "60"]
    checked = CliRunner().invoke(main, ["plugin", "check", address, *options])
    assert checked.exit_code == Exit.OK, checked.output
    assert {rule["verdict"] for rule in json.loads(checked.output)["rules"]} == {"holds"}
