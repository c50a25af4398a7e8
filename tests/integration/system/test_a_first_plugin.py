"""What a first plugin is written from: the page's complete example, and the example gates, with the service itself."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from tests.builders import taskset
from tests.installation import Installation
from tests.integration.system.gates import GATES, Start, register
from tests.pages import Page, code
from tests.plugin_server import PluginServer
from tests.waiting import wait_for

PAGE = Page("plugin-protocol.md")


def example(heading: str) -> Any:
    return json.loads(PAGE.blocks(heading, "json")[0])


def renamed(document: Any, job_id: str) -> Any:
    """An example of the page as it would be for this job."""
    return json.loads(json.dumps(document).replace(example("## What you are sent")["header"]["jobID"], job_id))


TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_plugins_that_answer_as_on_the_page_bring_its_job_to_success(
    service: Installation, plugins: PluginServer
) -> None:
    feature, submission = map(yaml.safe_load, PAGE.blocks("## A complete example", "yaml"))
    answers: dict[str, Callable[[Any], Any]] = {
        "/translate": lambda packet: example("### TemplateTranslator"),
        "/factors": lambda packet: example("### FactorGenerator"),
        "/gate": lambda packet: example("### AccessGate"),
        "/decorate": lambda packet: renamed(example("### TemplateDecorator"), packet["header"]["jobID"]),
        "/bind": lambda packet: renamed(example("### SchedulerBinder"), packet["header"]["jobID"]),
        "/hook": lambda event: "OK",
    }
    for plugin in feature["plugins"]:
        path = plugin["callAddress"].removeprefix("http://127.0.0.1:9300")
        plugin["callAddress"] = plugins.plugin(path, answers[path])
    service.post("/v1/features", feature)
    service.put(f"/v1/features/turn-on/{feature['name']}")

    # A job that belongs to a trace, so that its packets have every header that the page names.
    submitted = service.ask("POST", "/v1/job", submission, traceparent=TRACEPARENT)
    job_id = submitted.json()["payload"]["jobID"]
    service.wait_state(job_id, "succeeded")
    wait_for(lambda: len(plugins.calls_of("/hook", job_id)) == 3, "the LifeHook to hear of the end")

    (gate,) = plugins.calls_of("/gate")
    assert gate.body == renamed(example("## What you are sent"), job_id)
    sent = {name.lower() for name in gate.headers}
    documented = [code(name).lower() for name, _ in PAGE.rows("## What you are sent", first="request header")]
    assert [name for name in documented if name not in sent] == []
    assert gate.headers["traceparent"] == TRACEPARENT
    event, expected = plugins.calls_of("/hook", job_id)[1].body, renamed(example("### LifeHook"), job_id)
    changing = ("occurredAt", "currentTime")
    assert list(event) == list(expected)
    assert {**event, **dict.fromkeys(changing)} == {**expected, **dict.fromkeys(changing)}


def decisions(service: Installation, job_id: str) -> list[str]:
    return [entry["decision"] for entry in service.get(f"/v1/job/trail/{job_id}") if entry["outcome"] == "answered"]


def test_the_gate_in_python_lets_small_jobs_pass_and_parks_large_ones(service: Installation, start: Start) -> None:
    key = register(service, "large-jobs.yaml", start(sys.executable, GATES / "gate.py"))
    small, large = service.submit(taskset(replicas=8)), service.submit(taskset(replicas=9))
    service.wait_state(small, "succeeded")
    job = service.wait_state(large, "suspended")
    assert (job["suspendedBy"], job["reason"]) == (key, "9 replicas are more than 8: somebody has to agree")
    service.put(f"/v1/job/resume/{large}")
    service.wait_state(large, "succeeded")
    assert decisions(service, large) == ["suspend"]


def test_the_gate_in_shell_parks_jobs_until_its_file_is_gone(
    service: Installation, start: Start, tmp_path: Path
) -> None:
    assert shutil.which("bash"), "bash runs the gate"
    assert shutil.which("perl"), "perl, which is part of every Debian, listens for the gate"
    key = register(service, "maintenance.yaml", start(GATES / "gate.sh", then=("maintenance",)))
    before = service.submit(taskset())
    service.wait_state(before, "succeeded")
    (tmp_path / "maintenance").touch()
    during = service.submit(taskset())
    assert service.wait_state(during, "suspended")["suspendedBy"] == key
    (tmp_path / "maintenance").unlink()
    service.wait_state(during, "succeeded")
    assert decisions(service, before) == ["pass"]
    assert decisions(service, during) == ["suspend", "pass"]


def test_the_gate_in_shell_takes_large_bodies_and_many_calls_at_a_time(service: Installation, start: Start) -> None:
    register(service, "maintenance.yaml", start(GATES / "gate.sh", then=("maintenance",)))
    job = taskset()
    job["metadata"]["annotations"] = {"note": "x" * 800_000}
    jobs = [service.submit(job), *(service.submit(taskset()) for _ in range(5))]
    for job_id in jobs:
        service.wait_state(job_id, "succeeded")
        assert decisions(service, job_id) == ["pass"]
