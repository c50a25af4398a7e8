"""The scripts of a collector's containers, as the shell of this machine runs them."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pipeline_core.clusters.kubernetes.collector import equip, printed_metrics
from pipeline_core.taskset.results import MAX_METRICS

STAMP = b"2026-03-01T12:00:00.000000001Z "


def printed(tmp_path: Path, contents: dict[str, bytes]) -> list[bytes]:
    """What the scripts of both containers make of files, as they run in a shell of this machine."""
    template: dict[str, Any] = {"spec": {"containers": [{"name": name, "image": "x"} for name in contents]}}
    equip(template, "collector:1")
    spec = template["spec"]
    prepare, hand_over = (
        [word.replace("/collected", str(tmp_path)) for word in one["command"]]
        for one in (spec["initContainers"][0], spec["containers"][-1])
    )
    subprocess.run(prepare, check=True)
    for name, data in contents.items():
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o666
        (tmp_path / name).write_bytes(data)
    script = hand_over[2].replace("while :", "echo ready; while :")
    with subprocess.Popen(
        [*hand_over[:2], script, *hand_over[3:]], stdout=subprocess.PIPE, start_new_session=True
    ) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"ready\n"
        run.terminate()
        lines = [run.stdout.readline()]
        while lines[-1] not in (b"", b"end\n"):
            lines.append(run.stdout.readline())
        os.killpg(run.pid, signal.SIGKILL)
    return [STAMP + line.removesuffix(b"\n") for line in lines]


@pytest.mark.parametrize(
    ("contents", "data"),
    [
        ({"a": b""}, b""),
        ({"a": b"[]\n"}, b"[]\n"),
        ({"a": b"", "b": b"b", "c": b"c"}, b"b"),
        ({"a": bytes(MAX_METRICS + 7)}, bytes(MAX_METRICS + 1)),
    ],
)
def test_what_the_collector_prints_is_the_first_file_that_is_not_empty(
    tmp_path: Path, contents: dict[str, bytes], data: bytes
) -> None:
    assert printed_metrics(printed(tmp_path, contents)) == data
