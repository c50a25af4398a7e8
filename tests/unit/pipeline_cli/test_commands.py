"""The command line without a service: commands, their documentation, exit codes, and imports at start."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner

from pipeline_cli import COMMANDS, main
from pipeline_cli.client import base_url, is_loopback
from pipeline_cli.exits import Exit, exit_for
from pipeline_cli.group import LazyGroup
from pipeline_cli.options import Instant, Pair

DOCUMENT = Path(__file__).parents[3] / "docs" / "cli.md"
CLIENT_COMMANDS = sorted(COMMANDS.keys() - {"up"})


def walk(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for inner in command.list_commands(context):
            subcommand = command.get_command(context, inner)
            assert subcommand, inner
            yield from walk(f"{name} {inner}", subcommand)
    else:
        yield name, command


ALL = [pair for name in CLIENT_COMMANDS for pair in walk(name, COMMANDS[name].load())]


@pytest.mark.parametrize("name", CLIENT_COMMANDS)
def test_the_list_of_commands_says_what_the_command_says(name: str) -> None:
    assert COMMANDS[name].load().get_short_help_str(limit=200) == COMMANDS[name].summary


@pytest.mark.parametrize("name", [name for name in CLIENT_COMMANDS if isinstance(COMMANDS[name].load(), LazyGroup)])
def test_the_list_of_a_group_s_commands_says_what_they_say(name: str) -> None:
    group = COMMANDS[name].load()
    assert isinstance(group, LazyGroup)
    for entry in group.entries.values():
        assert entry.load().get_short_help_str(limit=200) == entry.summary


def section(name: str) -> str:
    text = DOCUMENT.read_text()
    heading = f"### `pipeline {name}"
    assert text.count(f"{heading} ") + text.count(f"{heading}`") == 1, (
        f"{DOCUMENT.name} must have one heading {heading}"
    )
    return text.split(heading, 1)[1].split("\n##", 1)[0]


@pytest.mark.parametrize(("name", "command"), ALL, ids=[name for name, _ in ALL])
def test_each_command_and_option_is_documented(name: str, command: click.Command) -> None:
    written = section(name)
    options = {option for parameter in command.params for option in parameter.opts if option.startswith("--")}
    missing = sorted(option for option in options - {"--url", "--output"} if f"`{option}" not in written)
    assert missing == []


def test_each_option_of_up_is_documented() -> None:
    options = {option for parameter in COMMANDS["up"].load().params for option in parameter.opts}
    assert sorted(option for option in options if f"| `{option}` |" not in section("up")) == []


def test_no_command_is_documented_that_is_not_there() -> None:
    headings = [line for line in DOCUMENT.read_text().splitlines() if line.startswith("### `pipeline ")]
    assert len(headings) == len(ALL) + 1  # and `up`


@pytest.mark.parametrize("exit_code", Exit, ids=lambda code: code.name)
def test_each_exit_code_is_documented(exit_code: Exit) -> None:
    assert f"| {exit_code.value} | {exit_code.meaning} |" in DOCUMENT.read_text()


def test_exit_codes_never_change() -> None:
    codes = {"OK": 0, "JOB_NOT_SUCCEEDED": 1, "USAGE": 2, "REFUSED": 3, "NOT_FOUND": 4, "UNAVAILABLE": 5, "DENIED": 6}
    codes |= {"UNWRITABLE": 7}
    assert {code.name: code.value for code in Exit} == codes | {"INTERRUPTED": 130}


@pytest.mark.parametrize("status", range(400, 600))
def test_every_error_has_an_exit_code_of_the_service(status: int) -> None:
    assert Exit.REFUSED <= exit_for(status, "WRONG_PARAM") <= Exit.DENIED


@pytest.mark.parametrize(
    "words",
    [["nonsense"], ["job"], ["jobs", "--order", "up"], ["jobs", "--since", "soon"], ["submit", "x", "-H", "novalue"]],
)
def test_a_wrong_command_line_is_exit_code_2(words: list[str]) -> None:
    assert CliRunner().invoke(main, words).exit_code == Exit.USAGE


@pytest.mark.parametrize("url", ["127.0.0.1:8080", "ftp://x", "http://", "", "http://[", "http://x:99999"])
def test_a_wrong_url_is_exit_code_2_and_says_what_would_be_right(url: str) -> None:
    result = CliRunner().invoke(main, ["job", "j01"], env={"PIPELINE_URL": url or " "})
    assert result.exit_code == Exit.USAGE
    assert "http://127.0.0.1:8080" in result.stderr


@pytest.mark.parametrize("url", ["http://x/v1", "http://x/prefix/v1/"])
def test_a_url_with_the_version_in_it_is_told_to_be_without(url: str) -> None:
    result = CliRunner().invoke(main, ["jobs"], env={"PIPELINE_URL": url})
    assert result.exit_code == Exit.USAGE
    assert f"without /v1: {url.removesuffix('/').removesuffix('/v1')}\n" in result.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["job", "\udcff"], "'ID': it is no text in UTF-8"),
        (["jobs", "--name", "\udcff"], "'--name': it is no text in UTF-8"),
        (["submit", "x", "-H", "a=\udcff"], "'--header' / '-H': it is no text in UTF-8"),
        (["token", "create", "\udcff", "--for", "ada"], "it is no text in UTF-8"),
        (["job", ""], "'ID': \"\" names nothing"),
        (["feature", "show", ".."], "'NAME': \"..\" names nothing"),
        (["submit", "x", "--idempotency-key", "a\nb"], "visible ASCII"),
        (["submit", "x", "--idempotency-key", "€"], "visible ASCII"),
    ],
)
def test_an_argument_that_cannot_be_sent_is_exit_code_2_and_named(words: list[str], says: str) -> None:
    result = CliRunner().invoke(main, words)
    assert result.exit_code == Exit.USAGE
    assert says in result.stderr


def test_a_database_url_that_is_none_is_exit_code_2_and_says_what_would_be_right(
    monkeypatch: pytest.MonkeyPatch, fresh_runtime: Callable[[], None]
) -> None:
    monkeypatch.setenv("PIPELINE_DATABASE_URL", "zzz")
    result = CliRunner().invoke(main, ["database", "upgrade"])
    assert result.exit_code == Exit.USAGE
    assert "begins with `postgresql:`" in result.stderr


def test_a_token_that_is_none_is_exit_code_2_and_not_shown() -> None:
    result = CliRunner().invoke(main, ["job", "j01"], env={"PIPELINE_TOKEN": "a\nb"})
    assert result.exit_code == Exit.USAGE
    assert "a\nb" not in result.stderr


def test_ctrl_c_is_exit_code_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setitem(
        main.entries, "jobs", SimpleNamespace(load=lambda: click.Command("jobs", callback=lambda: interrupted(0)))
    )
    assert CliRunner().invoke(main, ["jobs"]).exit_code == Exit.INTERRUPTED


def test_completion_knows_commands_without_loading_them() -> None:
    environment = {"_PIPELINE_COMPLETE": "bash_complete", "COMP_WORDS": "pipeline f", "COMP_CWORD": "1"}
    result = CliRunner().invoke(main, [], env=environment, prog_name="pipeline")
    assert result.stdout == "plain,flow\nplain,feature\n"


@pytest.mark.parametrize(
    ("text", "seconds"), [("0", 0), ("1738324800", 1738324800), ("2025-01-31T12:00:00Z", 1738324800)]
)
def test_an_instant_is_unix_seconds(text: str, seconds: int) -> None:
    assert Instant().convert(text, None, None) == seconds


@pytest.mark.parametrize(("text", "ago"), [("90s", 90), ("30m", 1800), ("2h", 7200), ("7d", 604800)])
def test_an_instant_may_be_so_long_ago(text: str, ago: int) -> None:
    assert abs(datetime.now(UTC).timestamp() - ago - Instant().convert(text, None, None)) < 5


def test_a_pair_is_split_at_its_first_equals_sign() -> None:
    assert Pair().convert("a=b=c", None, None) == ("a", "b=c")


@pytest.mark.parametrize(
    ("url", "loopback"),
    [
        ("http://127.0.0.1:1", True),
        ("http://127.9.9.9", True),
        ("http://[::1]:8080", True),
        ("http://localhost", True),
        ("http://api.localhost", True),
        ("http://10.0.0.1", False),
        ("https://pipeline.example.com", False),
    ],
)
def test_loopback_is_known_by_address_and_by_name(url: str, loopback: bool) -> None:
    assert is_loopback(url) is loopback


def test_a_slash_at_the_end_of_the_url_does_not_matter() -> None:
    assert base_url("http://x/prefix/") == "http://x/prefix"


def test_a_command_that_needs_the_extra_cli_says_so_where_it_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("pipeline_cli.output", "pipeline_cli.options", "pipeline_cli.operations"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    result = CliRunner().invoke(main, ["status"])
    assert result.exit_code != Exit.OK
    assert "pip install 'pipeline-service[cli]'" in result.stderr


def test_a_command_that_needs_the_extra_server_says_so_where_it_is_not_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "pipeline_cli.processes", raising=False)
    monkeypatch.setitem(sys.modules, "celery", None)
    result = CliRunner().invoke(main, ["worker", "stages"])
    assert result.exit_code != Exit.OK
    assert "needs the package celery: pip install 'pipeline-service[server]'" in result.stderr
