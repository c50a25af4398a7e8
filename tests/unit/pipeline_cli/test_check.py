"""`pipeline plugin check` as a command: what it refuses to begin with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pipeline_cli import main
from pipeline_cli.exits import Exit
from tests.builders import taskset

PACKET = {"factors": {}, "header": {}, "job": taskset()}


def check(*words: str) -> Any:
    return CliRunner().invoke(main, ["plugin", "check", *words])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("ftp://x/", "--type", "AccessGate"), "http"),
        (("http://169.254.169.254/", "--type", "AccessGate"), "link-local"),
        (("http://x/", "--type", "Gate"), "Gate"),
        (("http://x/",), "--type"),
        (("http://x/", "--type", "AccessGate", "--signing-secret", "short"), "whsec_"),
        (("http://x/", "--type", "TemplateTranslator"), "--packet"),
        (("http://x/", "--type", "AccessGate", "--packet", "missing.json"), "missing.json"),
    ],
)
def test_a_wrong_command_line_checks_nothing(words: tuple[str, ...], says: str) -> None:
    result = check(*words)
    assert result.exit_code == Exit.USAGE
    assert says in result.output


@pytest.mark.parametrize(
    ("kind", "document", "says"),
    [
        ("AccessGate", "{", "packet.json"),
        ("AccessGate", [], "an object is missing"),
        ("AccessGate", {"factors": {}, "header": {}}, "job is missing"),
        ("AccessGate", {**PACKET, "job": {"kind": "TFJob"}}, "`job`: The TaskSet is wrong"),
        ("TemplateTranslator", PACKET, "is a TaskSet already"),
        ("LifeHook", PACKET, "id, currentState, sequence is missing"),
    ],
)
def test_a_wrong_packet_checks_nothing(tmp_path: Path, kind: str, document: Any, says: str) -> None:
    path = tmp_path / "packet.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    result = check("http://127.0.0.1:1/", "--type", kind, "--packet", str(path))
    assert result.exit_code == Exit.USAGE
    assert says in result.output


def test_a_plugin_that_is_not_there_is_reported() -> None:
    result = check("http://127.0.0.1:1/", "--type", "AccessGate", "--timeout", "2")
    assert result.exit_code == Exit.JOB_NOT_SUCCEEDED
    assert "FAIL  reachable" in result.output
    assert "1 broken" in result.output
