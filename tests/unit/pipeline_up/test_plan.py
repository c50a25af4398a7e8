from __future__ import annotations

from pathlib import Path

from gunicorn.config import Config

from pipeline_up.plan import ProcessPlan


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
    names = [service.name for service in plan().services()]
    assert names == ["api", "stages1", "stages2", "hooks1", "flows", "housekeeping", "beat", "watcher"]


def test_every_queue_has_a_worker() -> None:
    queues = {
        queue
        for service in plan().services()
        if "-Q" in service.argv
        for queue in service.argv[service.argv.index("-Q") + 1].split(",")
    }
    stages = {f"stages.{stage}" for stage in ("translate", "factors", "gates", "decorate", "bind", "launch")}
    assert queues == stages | {"hooks", "flows", "ticks"}


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
