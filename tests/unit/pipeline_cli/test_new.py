"""`pipeline plugin new`: what it writes. Whether that runs is tried with processes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from api.schemas.features import FeatureBody
from pipeline_cli import main
from pipeline_cli.exits import Exit
from pipeline_cli.new import ANSWERS, COMMANDS, Language, contents, recorded
from pipeline_core.plugins import answers
from pipeline_core.plugins.types import PluginType
from pipeline_core.stages import reading

READERS: dict[PluginType, Callable[[bytes], object]] = {
    PluginType.TEMPLATE_TRANSLATOR: lambda body: reading.translation(body, "j1", "default"),
    PluginType.FACTOR_GENERATOR: answers.factors,
    PluginType.ACCESS_GATE: answers.gate,
    PluginType.TEMPLATE_DECORATOR: lambda body: reading.decoration(
        recorded(PluginType.TEMPLATE_DECORATOR)["job"], body
    ),
    PluginType.SCHEDULER_BINDER: lambda body: reading.binding(recorded(PluginType.SCHEDULER_BINDER)["job"], body),
}


@pytest.mark.parametrize("language", Language)
@pytest.mark.parametrize("kind", PluginType)
def test_each_type_in_each_language_has_all_its_files(kind: PluginType, language: Language) -> None:
    written = dict(contents("my-plugin", kind, language, "ann", 9007))
    needed = {COMMANDS[language].code, "packet.json", "answer.json", "feature.json", "README.md", "Dockerfile"}
    assert needed | {"manifest.yaml"} <= written.keys()
    assert [path for path, text in written.items() if re.search(r"@[A-Z]+@", text)] == []
    feature = FeatureBody().read(json.loads(written["feature.json"]))
    assert [plugin.type for plugin in feature.plugins] == [kind]
    deployment, service = yaml.safe_load_all(written["manifest.yaml"])
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["readinessProbe"]["httpGet"]["port"] == service["spec"]["ports"][0]["port"] == 9007
    assert "9007" in written["Dockerfile"]
    assert kind.with_article in written["README.md"]
    assert not [path for path, text in written.items() if re.search(r"@[A-Z_]+@", text)], "each place is filled in"


@pytest.mark.parametrize("kind", READERS)
def test_the_recorded_answer_is_one_that_the_service_takes(kind: PluginType) -> None:
    READERS[kind](json.dumps(ANSWERS[kind](recorded(kind), "x")).encode())


def test_a_plugin_in_python_has_the_kit_with_it() -> None:
    written = dict(contents("x", PluginType.ACCESS_GATE, Language.PYTHON, "ann", 9000))
    assert {"pipeline_plugin/__main__.py", "pipeline_plugin/py.typed"} <= written.keys()
    assert "pipeline_plugin/pyproject.toml" not in written


def new(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["plugin", "new", *words])
    return result.exit_code, result.output


def test_it_is_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code, output = new("quota", "--type", "AccessGate", "--lang", "shell", "--port", "9001")
    assert code == Exit.OK
    assert "./server.sh 9001" in output
    assert (tmp_path / "quota" / "answer.sh").stat().st_mode & 0o111
    before = (tmp_path / "quota" / "README.md").read_text()
    assert new("quota", "--type", "LifeHook")[0] == Exit.USAGE
    assert (tmp_path / "quota" / "README.md").read_text() == before


@pytest.mark.parametrize("name", ["Quota", "9", "a_b", "../x", "a-", "x" * 51, ""])
def test_a_name_that_is_none_writes_nothing(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert new(name, "--type", "AccessGate")[0] == Exit.USAGE
    assert list(tmp_path.iterdir()) == []
