from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from pipeline_cli import up
from pipeline_core.clusters.local import launcher
from pipeline_core.errors import ConfigurationError
from pipeline_up import flower
from pipeline_up.embedded import postgres, redis
from pipeline_up.environment import child_environment, kept_secret_key
from pipeline_up.listener import Listener
from pipeline_up.logs import rotate, tail
from pipeline_up.plan import Plan
from pipeline_up.service import backoff
from pipeline_up.supervisor import describe


def plan(**changes: object) -> Plan:
    values = {
        "environment": {"A": "1"},
        "data_dir": Path("/data"),
        "listener": 9,
        "api_ready": lambda: True,
        "stage_workers": 2,
        "hook_workers": 1,
    }
    return Plan(**{**values, **changes})  # type: ignore[arg-type]


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


def test_pauses_between_starts_double_up_to_a_limit() -> None:
    assert [backoff(failures) for failures in (1, 2, 3, 7, 500)] == [0.5, 1.0, 2.0, 30.0, 30.0]


@pytest.mark.parametrize(
    ("given", "loopback", "development"),
    [
        ({}, True, "1"),
        ({}, False, "0"),
        ({"PIPELINE_DEVELOPMENT": "0"}, True, "0"),
        ({"PIPELINE_DEVELOPMENT": "1"}, False, "0"),
    ],
)
def test_only_a_run_on_loopback_is_a_development_run(given: dict[str, str], loopback: bool, development: str) -> None:
    environment = child_environment(
        {"KEPT": "yes", **given},
        database_url="d",
        redis_url="r",
        secret_key="k",
        data_dir=Path("/data"),
        loopback=loopback,
    )
    assert environment["PIPELINE_DEVELOPMENT"] == development
    assert environment["KEPT"] == "yes"
    assert environment["PIPELINE_DATA_DIR"] == "/data"


def test_the_secret_key_is_made_once_and_is_the_owners_alone(tmp_path: Path) -> None:
    key = kept_secret_key(tmp_path)
    assert kept_secret_key(tmp_path) == key
    assert len(key) == 44
    assert (tmp_path / "secret.key").stat().st_mode & 0o777 == 0o600


def test_a_full_log_is_turned_over_and_the_oldest_lines_go(tmp_path: Path) -> None:
    log = tmp_path / "api.log"
    for text in ("first", "second", "third"):
        log.write_text(text)
        rotate(log, largest=3, kept=2)
    assert log.read_text() == ""
    assert [(tmp_path / f"api.log.{number}").read_text() for number in (1, 2)] == ["third", "second"]
    assert not (tmp_path / "api.log.3").exists()


def test_a_small_log_is_left_alone(tmp_path: Path) -> None:
    log = tmp_path / "api.log"
    log.write_text("line")
    rotate(log, largest=5)
    assert log.read_text() == "line"


def test_the_tail_of_a_log_begins_with_a_whole_line(tmp_path: Path) -> None:
    log = tmp_path / "api.log"
    log.write_text("".join(f"line {number}\n" for number in range(1000)))
    lines = tail(log).splitlines()
    assert lines[0].startswith("line ")
    assert lines[-1] == "line 999"


@pytest.mark.parametrize(("status", "words"), [(0, "with code 0"), (3, "with code 3"), (-9, "by SIGKILL")])
def test_a_status_is_told_in_words(status: int, words: str) -> None:
    assert describe(status) == words


@pytest.mark.parametrize(
    ("host", "loopback", "url"),
    [("127.0.0.1", True, "http://127.0.0.1:{}"), ("localhost", True, None), ("0.0.0.0", False, "http://127.0.0.1:{}")],
)
def test_a_listener_knows_who_can_reach_it(host: str, loopback: bool, url: str | None) -> None:
    listener = Listener(host, 0)
    assert listener.loopback is loopback
    assert url is None or listener.url == url.format(listener.port)
    listener.close()


def test_an_unknown_host_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"There is no address nowhere\.invalid"):
        Listener("nowhere.invalid", 0)


def test_quotes_in_settings_cannot_end_them() -> None:
    assert postgres.configuration_text({"a": "it's"}) == "a = 'it''s'\n"
    assert redis.configuration_text({"dir": 'a"b\\c'}) == 'dir "a\\"b\\\\c"\n'


def test_flower_is_told_no_secret_but_its_own_and_nothing_that_opens_it() -> None:
    given = {
        "PIPELINE_REDIS_URL": "redis://r", "PIPELINE_SECRET_KEY": "k", "PIPELINE_DATABASE_URL": "d",
        "PIPELINE_ADMIN_PASSWORD": "a", "PIPELINE_FLOWER_PASSWORD": "p", "FLOWER_UNAUTHENTICATED_API": "true",
    }  # fmt: skip
    told = flower.flower(given, 5555, "secret").env
    assert told == {"PIPELINE_REDIS_URL": "redis://r", "FLOWER_BASIC_AUTH": "admin:secret"}


def test_flowers_password_is_made_once_and_is_the_owners(tmp_path: Path) -> None:
    made = flower.password("", tmp_path)
    assert len(made) >= 24
    assert flower.password("", tmp_path) == made
    assert (tmp_path / "flower.password").stat().st_mode & 0o777 == 0o600
    assert flower.password("given", tmp_path) == "given"
    with pytest.raises(ConfigurationError, match="comma"):
        flower.password("a,b", tmp_path)


@pytest.mark.parametrize("problems", [[], ["Limits of memory and CPU are not enforced: [Errno 13] Permission denied."]])
def test_a_run_on_this_machine_says_what_it_cannot_do(monkeypatch: pytest.MonkeyPatch, problems: list[str]) -> None:
    monkeypatch.setattr(launcher, "shortcomings", lambda: problems)
    console = Console(record=True, width=200)
    up._welcome(console, SimpleNamespace(logs=Path("/data/logs")), SimpleNamespace(url="http://here"))  # type: ignore[arg-type]
    assert console.export_text().splitlines()[-1 - len(problems) :] == [
        "Jobs run as processes of this machine: images are not used.",
        *problems,
    ]
