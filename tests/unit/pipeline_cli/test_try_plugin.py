"""`pipeline plugin try` as a command: what it refuses to begin with, and how it fetches packets."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from pipeline_cli import main
from pipeline_cli.exits import Exit
from pipeline_cli.try_plugin import pages


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("ftp://x/", "--type", "AccessGate"), "http"),
        (("http://x/", "--type", "LifeHook"), "LifeHook"),
        (("http://x/",), "--type"),
        (("http://x/", "--type", "AccessGate", "--where", "color=red"), "kind, user, state, name"),
        (("http://x/", "--type", "AccessGate", "--where", "kind"), "NAME=VALUE"),
        (("http://x/", "--type", "AccessGate", "--jobs", "0"), "--jobs"),
    ],
)
def test_a_wrong_command_line_tries_nothing(words: tuple[str, ...], says: str) -> None:
    result = CliRunner().invoke(main, ["plugin", "try", *words])
    assert result.exit_code == Exit.USAGE
    assert says in result.output


class Service:
    """Answers with these pages, and notes the queries."""

    def __init__(self, *found: tuple[list[int], str | None]) -> None:
        self._found = iter(found)
        self.asked: list[Any] = []

    def get(self, *path: str, params: Any) -> Any:
        self.asked.append(params)
        jobs, cursor = next(self._found)
        return SimpleNamespace(payload={"jobs": jobs, "cursor": cursor})


def test_pages_are_fetched_until_there_are_enough() -> None:
    service = Service(([1, 2], "b"), ([], "c"), ([3, 4], "d"))
    assert list(pages(service, {"stage": "gates"}, 3)) == [[1, 2], [3]]  # type: ignore[arg-type]
    assert service.asked == [{"stage": "gates"}, *({"stage": "gates", "cursor": cursor} for cursor in "bc")]


def test_pages_are_fetched_until_there_are_no_more() -> None:
    service = Service(([1], "b"), ([], None))
    assert list(pages(service, {}, 200)) == [[1]]  # type: ignore[arg-type]
