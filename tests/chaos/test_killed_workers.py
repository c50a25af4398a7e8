"""Processes killed in the middle of their work."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from tests.installation import installed, wait_for
from tests.jobs import taskset
from tests.plugin_server import serving
from tests.servers import fresh_database

QUICK = {"PIPELINE_LEASE_SECONDS": "2", "PIPELINE_WAKE_AFTER_SECONDS": "2", "PIPELINE_RECONCILE_SECONDS": "3"}


@pytest.mark.parametrize("stage", ["FactorGenerator", "AccessGate", "TemplateDecorator", "SchedulerBinder"])
def test_a_worker_killed_in_the_middle_of_a_stage_costs_a_lease_and_no_job(
    tmp_path: Path, postgres_url: str, migrated_database: str, redis_url: str, stage: str
) -> None:
    asked, answer = threading.Event(), threading.Event()
    answers: dict[str, Any] = {
        "FactorGenerator": lambda packet: {"topic": "priority", "advice": 1},
        "AccessGate": lambda packet: {"decision": "pass"},
        "TemplateDecorator": lambda packet: packet["job"],
        "SchedulerBinder": lambda packet: packet["job"],
    }

    def slow(packet: dict[str, Any]) -> Any:
        asked.set()
        answer.wait(60)
        return answers[stage](packet)

    with (
        fresh_database(postgres_url, template=migrated_database) as database_url,
        installed(tmp_path, database_url, redis_url, **QUICK) as service,
        serving() as plugins,
    ):
        service.start("api", "stages1", "hooks1", "housekeeping", "beat", "watcher")
        service.register("slow", {"pluginType": stage, "callAddress": plugins.plugin("/slow", slow)})
        marks = tmp_path / "starts"
        job_id = service.submit(taskset(f"echo started >> {marks}"))
        assert asked.wait(30), service.log("stages1")
        service.kill("stages1")
        answer.set()
        service.start("stages2")
        job = service.wait_state(job_id, "succeeded", "failed")
        assert job["state"] == "succeeded", job
        assert marks.read_text().split() == ["started"], "the job was launched once"
        assert service.events(job_id) == ["waiting", "running", "succeeded"]
        keys = {call.headers["Idempotency-Key"] for call in plugins.calls}
        assert len(keys) == 1, "the plugin is asked again with the same key"
        assert len(service.get(f"/v1/job/trail/{job_id}")) == 1
        wait_for(lambda: service.job(job_id)["cleanup"] == "done", "the cluster to be cleaned up")
