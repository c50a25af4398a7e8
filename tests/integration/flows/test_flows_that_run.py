"""The documents that flows come in, imported, run to their end and looked at from the command line: real processes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from click.testing import CliRunner, Result

from pipeline_cli import main
from tests.builders import flow_entry
from tests.installation import Installation, installed
from tests.servers import fresh_database
from tests.waiting import wait_for

CASES = Path(__file__).parents[2] / "cases" / "flows"
FILES = sorted(path.name for path in CASES.glob("case*.json"))
SCRIPT = 'echo "$KFJ_TASK_NAME of $KFJ_PIPELINE_NAME: $*"'
"""What tasks do here instead: the images that have their programs are not used on this machine."""

METRICS = {"join-train": [{"metric_type": "text", "describe": "auc", "text": "auc=0.80"}]}

Pipeline = Callable[..., Result]


@pytest.fixture(scope="module")
def service(
    tmp_path_factory: pytest.TempPathFactory, postgres_url: str, migrated_database: str, redis_url: str
) -> Iterator[Installation]:
    """An installation of the kind that the documents are written for, with their templates."""
    settings = json.loads((CASES / "settings.json").read_text())
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in settings.items()}
    with (
        fresh_database(postgres_url, template=migrated_database) as database_url,
        installed(tmp_path_factory.mktemp("flows"), database_url, redis_url, split=False, **texts) as installation,
    ):
        installation.start("api")
        wait_for(lambda: answers(installation), "the API")
        installation.start(*(installation.services.keys() - {"api"}))
        yield installation


def answers(installation: Installation) -> bool:
    """Whether the API does; while it starts, a request waits in its socket."""
    try:
        return installation.ask("GET", "/readyz").status_code == 200
    except requests.Timeout:
        return False


@pytest.fixture
def pipeline(service: Installation) -> Pipeline:
    """Runs the command line against the service."""

    def run(*words: str) -> Result:
        variables = {"PIPELINE_URL": service.url, "PIPELINE_TOKEN": service.password}
        return CliRunner().invoke(main, list(words), env=variables, catch_exceptions=False)

    return run


@pytest.fixture
def imported(pipeline: Pipeline, tmp_path: Path) -> Callable[[Any], None]:
    """Imports a document of flows."""

    def bring_in(document: Any) -> None:
        path = tmp_path / "flows.json"
        path.write_text(json.dumps(document))
        result = pipeline("flow", "import", str(path))
        assert result.exit_code == 0, result.output

    templates = pipeline("template", "import", str(CASES / "support-job-templates.json"))
    assert templates.exit_code == 0, templates.output
    return bring_in


def runnable(document: Any) -> Any:
    """The document with tasks that this machine can run: what they mount is elsewhere, and so are their programs."""
    for entry in document.values():
        for task in entry["tasks"]:
            task |= {"volume_mount": "", "working_dir": "/"}
            script = task["args"].get("command", "")
            if "/output" not in script:
                kept = re.search(r"printf.*", script)
                task["command"] = f"{SCRIPT}; {kept[0]}" if kept else SCRIPT
    return document


@pytest.mark.parametrize("name", FILES)
def test_the_documents_come_in_and_go_out_as_the_same_bytes(
    pipeline: Pipeline, imported: Callable[[Any], None], name: str
) -> None:
    text = (CASES / name).read_text()
    imported(json.loads(text))
    assert pipeline("flow", "export", *json.loads(text)).stdout == text


@pytest.mark.parametrize("name", FILES)
def test_the_documents_run_to_their_end(
    service: Installation, pipeline: Pipeline, imported: Callable[[Any], None], name: str
) -> None:
    document = runnable(json.loads((CASES / name).read_text()))
    imported(document)
    for key, entry in document.items():
        result = pipeline("flow", "run", key, "--watch", "--output", "json")
        assert result.exit_code == 0, result.output
        run = json.loads(result.stdout)
        expected = {task["name"]: "skipped" if task.get("skip") else "succeeded" for task in entry["tasks"]}
        assert {task["name"]: task["state"] for task in run["tasks"]} == expected
        logs = pipeline("runs", "logs", run["id"]).stdout
        names = [task["name"] for task in run["tasks"] if task["jobID"] and "/output" not in str(entry)]
        assert [task for task in names if f"{task} of {entry['pipeline']['name']}" not in logs] == []
        metrics = json.loads(pipeline("runs", "metrics", run["id"], "--output", "json").stdout)
        assert metrics == {name: METRICS.get(name, []) for name in expected}


def test_the_logs_of_a_run_are_followed_from_task_to_task(pipeline: Pipeline, imported: Callable[[Any], None]) -> None:
    scripts = {"first": "echo one", "second": "echo two; echo three"}
    imported(
        {
            "two": flow_entry(
                "two",
                {"first": [], "second": ["first"]},
                {name: {"script": script, "working_dir": "/"} for name, script in scripts.items()},
            )
        }
    )
    run_id = pipeline("flow", "run", "two").stdout.strip()
    followed = pipeline("runs", "logs", run_id, "--follow")
    assert (followed.exit_code, followed.stdout.splitlines()) == (0, ["first | one", "second | two", "second | three"])
    assert json.loads(pipeline("run", run_id, "--output", "json").stdout)["state"] == "succeeded"
    assert pipeline("runs", "logs", run_id, "--task", "SECOND", "--tail", "1").stdout == "three\n"
    assert pipeline("runs", "retry", run_id).exit_code == 3
    assert [line.split()[0] for line in pipeline("flow", "runs", "two").stdout.splitlines()] == ["RUN", run_id]
    assert pipeline("runs", "delete", run_id).exit_code == 0
    assert pipeline("run", run_id).exit_code == 4


def test_a_run_that_is_stopped_stops_its_jobs(
    service: Installation, pipeline: Pipeline, imported: Callable[[Any], None]
) -> None:
    imported({"long": flow_entry("long", {"sleep": []}, {"sleep": {"script": "sleep 1000", "working_dir": "/"}})})
    run_id = pipeline("flow", "run", "long").stdout.strip()
    job_id = wait_for(lambda: service.get(f"/v1/runs/{run_id}")["tasks"][0]["jobID"], "a job")
    service.wait_state(job_id, "running")
    assert pipeline("runs", "stop", run_id, "--reason", "enough").stdout == f"{run_id} stopped\n"
    service.wait_state(job_id, "stopped")
    watched = pipeline("run", run_id, "--watch")
    assert (watched.exit_code, watched.stdout.splitlines()[-1]) == (1, f"{run_id} stopped: enough")
