from __future__ import annotations

import signal

from tests.builders import taskset
from tests.installation import Installation
from tests.waiting import HANG_SECONDS, wait_for


def test_every_process_writes_heartbeats_and_there_are_no_problems(service: Installation) -> None:
    names = {"stages1", "stages2", "hooks1", "housekeeping"}

    def arrived() -> bool:
        status = service.get("/v1/status")
        workers = {one["worker"].split("@")[0] for one in status["workers"]}
        return workers >= names and status["beatHeartbeatAgeSeconds"] is not None and status["queueProbes"]

    wait_for(arrived, "a heartbeat of every process")
    assert service.get("/v1/status")["problems"] == []


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
