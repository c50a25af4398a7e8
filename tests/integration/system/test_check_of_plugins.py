"""`pipeline plugin check`, with plugins that are processes: those among the examples, and one that is stopped."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from click.testing import CliRunner, Result
from werkzeug.serving import make_server

from pipeline_cli import main
from pipeline_cli.exits import Exit
from tests.integration.system.gates import GATES, Start
from tests.pages import ROOT

EXAMPLES = ROOT / "examples"
PLUGINS = {
    "factors/user": "FactorGenerator",
    "factors/size": "FactorGenerator",
    "factors/history": "FactorGenerator",
    "gate/header": "AccessGate",
    "decorate/command": "TemplateDecorator",
    "bind/priority": "SchedulerBinder",
    "hook": "LifeHook",
}
KIT = """
from pipeline_plugin import Gate, passed

gate = Gate("g")
gate.decide(lambda packet: passed())
"""


def check(url: str, kind: str, *options: object) -> Result:
    return CliRunner().invoke(main, ["plugin", "check", url, "--type", kind, *map(str, options)])


def held(result: Result) -> bool:
    assert result.exit_code == Exit.OK, result.output
    return "broken" not in result.output


@pytest.mark.parametrize("script", ["gate.py", "approval.py"])
def test_the_example_gates_in_python_hold(start: Start, script: str) -> None:
    assert held(check(start(sys.executable, GATES / script), "AccessGate"))


def test_the_example_gate_in_shell_holds(start: Start) -> None:
    assert held(check(start("bash", GATES / "gate.sh", then=("maintenance",)), "AccessGate"))


def test_the_example_plugins_hold(start: Start, tmp_path: Path) -> None:
    address = start(sys.executable, EXAMPLES / "plugins" / "server.py", "--port")
    for path, kind in PLUGINS.items():
        assert held(check(f"{address}/{path}", kind)), path
    for name in ("tfjob", "pytorchjob", "mpijob"):
        job = yaml.safe_load((EXAMPLES / "jobs" / f"{name}.yaml").read_text())
        header = {"userID": "ann", "jobName": name, "jobKind": job["kind"], "jobID": "j1"}
        packet = tmp_path / f"{name}.json"
        packet.write_text(json.dumps({"factors": {}, "header": header, "job": job}))
        assert held(check(f"{address}/translate/{name}", "TemplateTranslator", "--packet", packet)), name


class NoGroups:
    """What the binder for Volcano does in a cluster, without one."""

    def create(self, *_: Any) -> None:
        pass

    remove = create


@pytest.fixture
def volcano() -> Iterator[str]:
    specification = importlib.util.spec_from_file_location("volcano_binder", EXAMPLES / "volcano" / "binder.py")
    assert specification
    assert specification.loader
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    server = make_server("127.0.0.1", 0, module.create_app(NoGroups()), threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def test_the_example_for_volcano_holds(volcano: str) -> None:
    assert held(check(f"{volcano}/bind", "SchedulerBinder"))
    assert held(check(f"{volcano}/hook", "LifeHook"))


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Callable[..., tuple[subprocess.Popen[str], str]]]:
    """Starts a command that prints where it listens; the process, and its address."""
    processes: list[subprocess.Popen[str]] = []

    def begin(*command: object) -> tuple[subprocess.Popen[str], str]:
        process = subprocess.Popen([str(word) for word in command], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
        processes.append(process)
        assert process.stdout
        return process, process.stdout.readline().split()[-1]

    yield begin
    for process in processes:
        process.kill()
        process.communicate()


def test_a_plugin_of_the_kit_stops_gracefully(launch: Any, tmp_path: Path) -> None:
    (tmp_path / "plugin.py").write_text(KIT)
    path = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from pipeline_plugin.__main__ import main; sys.exit(main())"
    process, address = launch(sys.executable, "-c", path, "plugin:gate", "--port", "0")
    result = check(address, "AccessGate", "--pid", process.pid, "--junit", tmp_path / "junit.xml", "--json")
    assert held(result)
    verdicts = {rule["id"]: rule["verdict"] for rule in json.loads(result.output)["rules"]}
    assert verdicts["graceful-stop"] == "holds"
    assert process.wait(60) == 0
    (suite,) = ElementTree.parse(tmp_path / "junit.xml").getroot()
    assert suite.get("failures") == "0"
    assert suite.get("tests") == str(len(verdicts))


ABRUPT = """
import sys
from http.server import ThreadingHTTPServer
sys.path.insert(0, {root!r})
from tests.unit.pipeline_cli.checking.wrong_plugins import Right, Server

Right.signed = lambda self, body: True
server = Server(("127.0.0.1", 0), Right)
print(f"listening on http://127.0.0.1:{{server.server_address[1]}}", flush=True)
server.serve_forever()
"""


def test_a_plugin_that_drops_the_call_under_way_breaks_that_rule_and_no_other(launch: Any) -> None:
    process, address = launch(sys.executable, "-c", ABRUPT.format(root=str(ROOT)))
    result = check(address, "AccessGate", "--pid", process.pid, "--timeout", 5, "--json")
    assert result.exit_code == Exit.JOB_NOT_SUCCEEDED
    found = json.loads(result.output)
    assert [rule["id"] for rule in found["rules"] if rule["verdict"] == "broken"] == ["graceful-stop"]
    assert not found["passed"]
