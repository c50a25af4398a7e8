"""What the demo does around the service: its own processes, its messages and how it ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.waiting import HANG_SECONDS, wait_for

ROOT = Path(__file__).parents[3]


@pytest.fixture
def demo(tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    """Starts the demo with an environment of its own whose `pipeline` is the fake one."""
    binaries = tmp_path / "bin"
    binaries.mkdir()
    (binaries / "python").symlink_to(sys.executable)
    script = binaries / "pipeline"
    script.write_text(f'#!/bin/sh\nexec {binaries / "python"} {Path(__file__).with_name("fake_service.py")} "$@"\n')
    script.chmod(0o755)

    def start(behaviour: str, *words: str) -> subprocess.Popen[str]:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "TMPDIR": str(tmp_path),
            "USER": "ada",
            "PYTHONPATH": f"{ROOT}:{sysconfig.get_path('purelib')}",
            "FAKE_SERVICE": behaviour,
            "FAKE_SERVICE_PORTS": str(tmp_path / "ports"),
            "PIPELINE_DATABASE_URL": "postgresql://somebody-else",
        }
        return subprocess.Popen(
            [binaries / "python", ROOT / "scripts" / "demo.py", *words],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    return start


def processes_of(directory: Path) -> list[int]:
    """The processes whose command line names the directory."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and str(directory).encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def logs_of(directory: Path) -> list[Path]:
    return list(directory.glob("pipeline-demo-*/*.log"))


def test_a_good_run_ends_with_succeeded_and_leaves_nothing(
    demo: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    process = demo("well")
    output, _ = process.communicate(timeout=HANG_SECONDS)
    assert process.returncode == 0, output
    assert re.fullmatch(r"succeeded in \d+ s", output.splitlines()[-1])
    assert "chief: done" in output
    assert processes_of(tmp_path) == []
    assert list(tmp_path.glob("pipeline-demo-*")) == []
    assert "9100" not in (tmp_path / "ports").read_text()


@pytest.mark.parametrize(
    ("behaviour", "says"),
    [
        ("dies", ["the service ended with exit code 1", "| there is no room on the disk"]),
        ("fails", ["pipeline wait j01"]),
    ],
)
def test_a_failure_says_what_failed_and_where_its_log_is(
    demo: Callable[..., subprocess.Popen[str]], tmp_path: Path, behaviour: str, says: list[str]
) -> None:
    process = demo(behaviour)
    output, _ = process.communicate(timeout=HANG_SECONDS)
    assert process.returncode == 1
    for text in says:
        assert text in output
    assert f"all logs are under {tmp_path}/pipeline-demo-" in output
    assert logs_of(tmp_path)
    assert processes_of(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_run_stops_all_that_it_started_and_leaves_nothing(
    demo: Callable[..., subprocess.Popen[str]], tmp_path: Path, number: signal.Signals
) -> None:
    process = demo("hangs")
    assert process.stdout is not None
    for line in process.stdout:
        if "running" in line:
            break
    process.send_signal(number)
    output, _ = process.communicate(timeout=HANG_SECONDS)
    assert process.returncode == 130
    assert "interrupted" in output
    wait_for(lambda: processes_of(tmp_path) == [])
    assert list(tmp_path.glob("pipeline-demo-*")) == []


def test_a_kept_run_goes_on_and_says_how_to_stop_it(demo: Callable[..., subprocess.Popen[str]], tmp_path: Path) -> None:
    process = demo("well", "--keep")
    output, _ = process.communicate(timeout=HANG_SECONDS)
    stop = re.search(r"kill ([\d ]+)", output)
    assert stop, output
    pids = [int(pid) for pid in stop[1].split()]
    try:
        assert process.returncode == 0
        assert len(set(pids) & set(processes_of(tmp_path))) == 2
        assert "PIPELINE_TOKEN=admin" in output
        (directory,) = tmp_path.glob("pipeline-demo-*")
        assert f"rm -r {directory}\n" in output
        assert logs_of(tmp_path)
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGTERM)
    wait_for(lambda: processes_of(tmp_path) == [])
