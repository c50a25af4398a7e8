"""`pipeline worker` and its kind become the process that they name."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from click.testing import CliRunner

from api import app
from pipeline_cli import main
from pipeline_cli.exits import Exit
from pipeline_core.errors import ConfigurationError
from pipeline_core.settings import Settings
from workers import processes

SERVERS = {"PIPELINE_DATABASE_URL": "postgresql://127.0.0.1:1/none", "PIPELINE_REDIS_URL": "redis://127.0.0.1:1/0"}


@pytest.fixture
def become(monkeypatch: pytest.MonkeyPatch, fresh_runtime: Callable[[], None]) -> Callable[..., list[str]]:
    """What a command line executes in place of itself."""

    for name, value in SERVERS.items():
        monkeypatch.setenv(name, value)

    def run(*words: str) -> list[str]:
        executed: list[list[str]] = []
        monkeypatch.setattr(os, "execv", lambda path, argv: executed.append([path, *argv[1:]]))
        result = CliRunner().invoke(main, words)
        assert result.exit_code == 0, result.stderr
        return executed[0]

    return run


@pytest.mark.parametrize("kind", processes.WORKERS)
def test_a_worker_of_each_kind(become: Callable[..., list[str]], kind: str) -> None:
    assert become("worker", kind) == processes.worker(kind)


def test_a_worker_for_some_stages(become: Callable[..., list[str]]) -> None:
    command = become("worker", "stages", "--stage", "bind", "--stage", "gates", "--concurrency", "9", "--name", "late")
    assert command == processes.worker("stages", name="late", queues=["stages.gates", "stages.bind"], concurrency=9)


def test_the_other_processes(become: Callable[..., list[str]]) -> None:
    limits = {"log_followers": Settings().log_followers, "event_waiters": Settings().event_waiters}
    assert become("api", "--bind", "0.0.0.0:80") == processes.api("0.0.0.0:80", **limits)
    assert become("beat", "--schedule", "/x") == processes.beat("/x")
    assert become("watch") == processes.watcher()


@pytest.mark.parametrize("words", ["worker stages", "worker flows", "worker housekeeping", "api", "watch"])
def test_a_process_that_uses_the_cluster_is_refused_without_one(
    words: str, monkeypatch: pytest.MonkeyPatch, fresh_runtime: Callable[[], None]
) -> None:
    monkeypatch.setenv("PIPELINE_CLUSTER_DRIVER", "kubernetes")
    monkeypatch.setenv("PIPELINE_KUBECONFIG", "/no/such/file")
    for name, value in SERVERS.items():
        monkeypatch.setenv(name, value)
    result = CliRunner().invoke(main, words.split())
    assert result.exit_code == Exit.USAGE
    assert "PIPELINE_KUBECONFIG (/no/such/file) cannot be read: No such file or directory" in result.stderr


def test_a_process_that_does_not_use_the_cluster_starts_without_one(
    become: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIPELINE_CLUSTER_DRIVER", "kubernetes")
    monkeypatch.setenv("PIPELINE_KUBECONFIG", "/no/such/file")
    assert become("worker", "hooks") == processes.worker("hooks")
    assert become("beat", "--schedule", "/x") == processes.beat("/x")


def test_what_does_not_fit_is_a_wrong_command_line(monkeypatch: pytest.MonkeyPatch, fresh_runtime: object) -> None:
    for words in (["worker", "nobody"], ["worker", "hooks", "--stage", "gates"], ["worker", "stages", "--stage", "no"]):
        assert CliRunner().invoke(main, words).exit_code == Exit.USAGE
    monkeypatch.setenv("PIPELINE_LEASE_SECONDS", "soon")
    result = CliRunner().invoke(main, ["worker", "stages"])
    assert (result.exit_code, "PIPELINE_LEASE_SECONDS" in result.stderr) == (Exit.USAGE, True)


@pytest.mark.parametrize("words", [["worker", "stages"], ["api"], ["beat"], ["watch"]])
@pytest.mark.parametrize("missing", SERVERS)
def test_a_process_without_the_url_of_a_server_says_so(
    monkeypatch: pytest.MonkeyPatch, fresh_runtime: Callable[[], None], words: list[str], missing: str
) -> None:
    for name, value in SERVERS.items():
        monkeypatch.setenv(name, "" if name == missing else value)
    result = CliRunner().invoke(main, words)
    assert result.exit_code == Exit.USAGE
    assert f"set {missing} (such as " in result.stderr


def test_an_api_that_must_not_serve_is_refused(
    monkeypatch: pytest.MonkeyPatch, fresh_runtime: Callable[[], None]
) -> None:
    def refuse() -> None:
        raise ConfigurationError("There is no admin password")

    for name, value in SERVERS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(app, "check_startup", refuse)
    result = CliRunner().invoke(main, ["api"])
    assert (result.exit_code, "There is no admin password" in result.stderr) == (Exit.USAGE, True)
