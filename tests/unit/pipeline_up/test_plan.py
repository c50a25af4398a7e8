from __future__ import annotations

import socket
from pathlib import Path

import pytest
from gunicorn.config import Config

from pipeline_up.plan import ProcessPlan
from pipeline_up.service import ready_at_once


def plan(**changes: object) -> ProcessPlan:
    values = {
        "environment": {"A": "1"},
        "data_dir": Path("/data"),
        "listener": 9,
        "api_ready": lambda: True,
        "stage_workers": 2,
        "hook_workers": 1,
    }
    return ProcessPlan(**{**values, **changes})  # type: ignore[arg-type]


def test_the_plan_has_every_process_of_the_service_under_a_name_of_its_own() -> None:
    names = [service.name for service in plan(split=True).services()]
    assert names == ["api", "stages1", "stages2", "hooks1", "flows", "housekeeping", "shadows", "beat", "watcher"]


def test_one_process_does_all_but_the_stages_and_the_api_unless_they_are_to_be_split() -> None:
    assert [service.name for service in plan().services()] == ["api", "stages1", "stages2", "background"]
    names = [service.name for service in plan(hook_workers=3).services()]
    assert names == ["api", "stages1", "stages2", "background", "hooks2", "hooks3"]
    background = plan().services()[-1].argv
    assert {"--ticks", "--watch", "--shadows"} <= set(background), (
        "it runs the ticks and the watcher, and asks shadows too"
    )


def test_workers_and_beat_are_ready_when_they_have_written_a_heartbeat() -> None:
    asked: list[tuple[str, float]] = []

    class Written:
        def written(self, name: str, seconds: float) -> bool:
            asked.append((name, seconds))
            return False

    services = plan(heartbeats=Written(), split=True).services()
    assert [one.name for one in services if one.ready(2.0)] == ["api", "watcher"]
    names = ["stages1", "stages2", "hooks1", "flows", "housekeeping", "shadows"]
    assert asked == [*((f"worker/{name}@{socket.gethostname()}", 2.0) for name in names), ("beat", 2.0)]
    assert [one.name for one in services if one.ready is ready_at_once] == ["watcher"]


@pytest.mark.parametrize("split", [True, False])
def test_every_queue_has_a_worker(split: bool) -> None:
    queues = {
        queue
        for service in plan(split=split).services()
        if "-Q" in service.argv
        for queue in service.argv[service.argv.index("-Q") + 1].split(",")
    }
    stages = {f"stages.{stage}" for stage in ("translate", "factors", "gates", "decorate", "bind", "launch")}
    assert queues == stages | {"hooks", "flows", "ticks", "shadows"}


def test_workers_give_running_tasks_back_when_they_are_stopped() -> None:
    workers = [service for service in plan().services() if "worker" in service.argv]
    assert not any("REMAP_SIGTERM" in dict(worker.env or {}) for worker in workers), "SIGTERM lets a worker drain"


def test_the_api_inherits_the_socket_that_it_serves() -> None:
    api = plan(listener=7).services()[0]
    assert "--bind=fd://7" in api.argv
    assert api.pass_fds == (7,)


def test_no_header_of_a_client_routes_its_request() -> None:
    config = Config()
    arguments = vars(config.parser().parse_args(plan(listener=7).services()[0].argv[3:]))
    config.set("forwarder_headers", arguments["forwarder_headers"])
    assert config.forwarder_headers == []
    assert config.header_map == "drop"
