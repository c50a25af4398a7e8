from __future__ import annotations

import signal
import socket
from contextlib import closing
from pathlib import Path

import pytest

from pipeline_core.database import transaction
from pipeline_core.operations import heartbeats
from pipeline_core.settings import Settings
from pipeline_up.heartbeats import Heartbeats
from tests.builders import taskset
from tests.installation import Installation, installed
from tests.waiting import HANG_SECONDS, wait_for


def test_every_process_writes_heartbeats_and_there_are_no_problems(service: Installation) -> None:
    names = {"stages1", "stages2", "background"}

    def arrived() -> bool:
        status = service.get("/v1/status")
        workers = {one["worker"].split("@")[0] for one in status["workers"]}
        return workers >= names and status["beatHeartbeatAgeSeconds"] is not None and status["queueProbes"]

    wait_for(arrived, "a heartbeat of every process")
    # Plugins of other tests in this installation may have failed jobs.
    assert [one for one in service.get("/v1/status")["problems"] if "jobs in the last hour" not in one] == []


def test_a_stopped_worker_deletes_its_heartbeat(service: Installation) -> None:
    def arrived() -> list[str]:
        return [one for one in service.get("/v1/status")["workers"] if one["worker"].startswith("stages2@")]

    wait_for(arrived, "the heartbeat of the worker")
    process = service.processes.pop("stages2")
    process.send_signal(signal.SIGTERM)
    process.wait(HANG_SECONDS)
    assert arrived() == []
    service.start("stages2")
    wait_for(arrived, "the heartbeat of the worker")


def test_what_was_done_is_added_up(service: Installation) -> None:
    service.wait_state(service.submit(taskset()), "succeeded")

    def scraped() -> bool:
        text = service.ask("GET", "/metrics").text
        return all(
            name in text
            for name in (
                'pipeline_stage_seconds_count{outcome="launched",stage="launch"}',
                'pipeline_tick_seconds_count{tick="tick.queue-probes"}',
            )
        )

    wait_for(scraped, "the stages and ticks in the metrics")


@pytest.mark.parametrize("process", ["stages1", "housekeeping", "beat"])
def test_a_process_writes_its_first_heartbeat_when_it_is_connected_to_redis(
    service_settings: Settings, database_url: str, tmp_path: Path, process: str
) -> None:
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    with installed(tmp_path, database_url, f"redis://127.0.0.1:{port}/0") as installation:
        installation.start(process)
        wait_for(lambda: "Connection refused" in installation.log(process), "the process to find no Redis")
        with transaction() as session:
            assert heartbeats.ages(session) == {}


def test_a_process_is_ready_by_a_heartbeat_that_is_younger_than_it_is(service_settings: Settings) -> None:
    heartbeats.beat("worker/w@here")
    assert Heartbeats().written("worker/w@here", 60.0)
    assert not Heartbeats().written("worker/w@here", 0.0), "the heartbeat of the process before it"
    assert not Heartbeats().written("worker/v@here", 60.0)
