"""The walk of the page about writing a plugin, command by command, in Python and in Node."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from pipeline_cli.new import Language, contents
from pipeline_core.plugins.types import PluginType
from tests.installation import Installation
from tests.pages import ROOT, Page

PAGE = Page("write-a-plugin.md")


def free_ports(count: int) -> list[int]:
    with ExitStack() as held:
        sockets = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [server.getsockname()[1] for server in sockets]


@pytest.mark.parametrize(("heading", "program"), [("## The walk", "python3"), ("## The walk in Node", "node")])
def test_the_walk_leads_to_a_plugin_that_decides(
    heading: str, program: str, service: Installation, tmp_path: Path
) -> None:
    if not shutil.which(program):
        pytest.skip(f"this walk needs {program}")
    commands = tmp_path / "bin"
    commands.mkdir()
    pipeline = commands / "pipeline"
    pipeline.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(ROOT)!r})\nfrom pipeline_cli import main\nmain()\n"
    )
    pipeline.chmod(0o755)
    ports = dict(zip(("9000", "9001"), map(str, free_ports(2)), strict=True))
    script = (
        re.sub("900[01]", lambda port: ports[port[0]], "".join(PAGE.blocks(heading, "sh")))
        .replace("\ncd quota", f" --port {ports['9000']}\ncd quota")
        # what plugins log is not to fall between the lines that commands print
        .replace(" &\n", " >>plugins.log 2>&1 &\n")
    )
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", f"trap 'kill $(jobs -p)' EXIT\n{script}"],
        cwd=tmp_path,
        env={
            **os.environ,
            "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}",
            "PIPELINE_URL": service.url,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert "broken" not in done.stdout
    assert "answered: pass: 2 of at most 8 replicas" in done.stdout
    assert "succeeded with exit code 0" in done.stdout
    assert "1 past job: 1 same" in done.stdout
    assert "  now   suspend: 2 replicas are more than 1" in done.stdout
    assert "1 past job: 1 different\nit decides otherwise\n" in done.stdout
    assert "AccessGate.quota-strict.ann is active; AccessGate.quota.ann is its shadow\n" in done.stdout
    assert service.get("/v1/features/list/all") == []


def test_the_plugin_on_the_page_is_the_one_that_is_written() -> None:
    (block,) = PAGE.blocks("## The walk", "python")
    assert block == dict(contents("quota", PluginType.ACCESS_GATE, Language.PYTHON, "ann", 9000))["plugin.py"]
