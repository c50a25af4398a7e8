"""A client that is generated from the document alone works."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import requests

from tests.installation import Installation
from tests.waiting import HANG_SECONDS

PACKAGE = "generated_pipeline_client"


@pytest.fixture(scope="module")
def generated(api: Installation, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """The client's package, importable under its name."""
    directory = tmp_path_factory.mktemp("client")
    document = directory / "openapi.json"
    document.write_text(requests.get(f"{api.url}/openapi.json", timeout=HANG_SECONDS).text)
    command = [sys.executable, "-m", "openapi_python_client", "generate", "--path", str(document), "--meta", "none"]
    made = subprocess.run(
        [*command, "--output-path", str(directory / PACKAGE), "--fail-on-warning"],
        # It has the code that it wrote formatted by ruff.
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
    )
    assert made.returncode == 0, made.stdout + made.stderr
    sys.path.insert(0, str(directory))
    try:
        yield importlib.import_module(PACKAGE)
    finally:
        sys.path.remove(str(directory))
        for name in [name for name in sys.modules if name.split(".")[0] == PACKAGE]:
            del sys.modules[name]


def operation(name: str) -> Any:
    return importlib.import_module(f"{PACKAGE}.api.{name}")


def test_a_generated_client_submits_a_job_and_reads_its_detail(api: Installation, generated: ModuleType) -> None:
    models = importlib.import_module(f"{PACKAGE}.models")
    client = generated.AuthenticatedClient(base_url=api.url, token=api.password)
    job = {"kind": "TFJob", "replicas": 2}
    body = models.Submit.from_dict(
        {"userID": "ada", "jobName": "mnist", "jobKind": "TFJob", "job": job, "header": {"type": "debug"}}
    )
    with client:
        job_id = operation("jobs.jobs_submit").sync(client=client, body=body).payload.job_id
        detail = operation("jobs.jobs_job_detail").sync(job_id, client=client).payload
        assert (detail.job.id, detail.job.name, detail.job.user_id) == (job_id, "mnist", "ada")
        assert (detail.job.state.value, detail.tasks, detail.platform_specific_info) == ("waiting", [], None)
        assert operation("jobs.jobs_config").sync(job_id, client=client).payload.to_dict() == job
        (listed,) = operation("jobs.jobs_job_list").sync(client=client, user_id="ada", state="waiting").payload
        assert listed.job_id == job_id
        refused = operation("jobs.jobs_job_detail").sync("nothing", client=client)
        assert refused.code.value == "OPERATION_TARGET_NOT_FOUND"
