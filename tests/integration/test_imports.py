"""Which modules the processes of the service do not import: each costs every process time at its start, and memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from pipeline_core.stages.names import Stage
from tests.waiting import HANG_SECONDS
from workers import processes

SERVERS = {"PIPELINE_DATABASE_URL": "postgresql://127.0.0.1:1/none", "PIPELINE_REDIS_URL": "redis://127.0.0.1:1/0"}
NOBODY = {
    "alembic",
    "click_repl",
    "flower",
    "fsspec",
    "jsonschema",
    "kubernetes",
    "opentelemetry",
    "prompt_toolkit",
    "rich",
    "tornado",
}
API_ONLY = {"flask", "flask_smorest", "gunicorn", "prometheus_client", "werkzeug"}
FLOWS = {"cronsim", "jinja2"}
LAUNCHES = {"jsonpatch", "jsonschema_rs"}
CALLS = {"requests", "urllib3"}
FORKS = {"celery.concurrency.prefork"}

PROCESSES = {
    "stages": (processes.worker("stages"), NOBODY | FORKS | API_ONLY | FLOWS),
    "hooks": (processes.worker("hooks"), NOBODY | FORKS | API_ONLY | FLOWS | LAUNCHES),
    "flows": (processes.worker("flows"), NOBODY | FORKS | API_ONLY),
    "housekeeping": (processes.worker("housekeeping"), NOBODY | API_ONLY),
    "shadows": (processes.worker("shadows"), NOBODY | FORKS | API_ONLY),
    "asking shadows": (processes.shadows(), NOBODY | FORKS | API_ONLY),
    "beat": (processes.beat("/none"), NOBODY | FORKS | API_ONLY | FLOWS | LAUNCHES),
    "watcher": (processes.watcher(), NOBODY | FORKS | API_ONLY | FLOWS | LAUNCHES | CALLS),
    "alone": (processes.alone("01J", 1, Stage.BIND, "worker"), NOBODY | FORKS | API_ONLY | FLOWS),
}
"""The command of each process of Python that is no API, and what it must not import."""


@pytest.mark.parametrize("name", PROCESSES)
def test_a_process_of_celery_imports_what_it_uses_alone(name: str) -> None:
    command, unwanted = PROCESSES[name]
    arguments = command[command.index("workers") + 1 :]
    loaded = imported(f"from workers.__main__ import load; load({arguments!r})")
    assert "celery" in loaded
    assert sorted(loaded & unwanted) == []


def test_the_api_imports_what_it_uses_alone() -> None:
    loaded = imported("import gunicorn.app.wsgiapp, api.server.worker, api.wsgi")
    assert {"flask", "celery"} <= loaded
    assert sorted(loaded & (NOBODY | FORKS)) == []


def test_a_command_that_becomes_a_process_imports_no_library() -> None:
    assert imported("import pipeline_cli.processes") & {"celery", "sqlalchemy", "structlog", "redis", "flask"} == set()


def imported(program: str) -> set[str]:
    """The packages and modules that a program has imported at its end."""
    ending = "import json, sys; print(json.dumps([name for name in sys.modules if sys.modules[name]]))"
    done = subprocess.run(
        [sys.executable, "-c", f"{program}\n{ending}"],
        env={**os.environ, **SERVERS, "PIPELINE_SECRET_KEY": "A" * 43 + "="},
        capture_output=True,
        text=True,
        check=True,
        timeout=HANG_SECONDS,
    )
    return set(json.loads(done.stdout.splitlines()[-1]))
