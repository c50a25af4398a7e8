"""Where a command's answer goes: as a table for people, or as JSON for programs, never as both."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from typing import Any

import click
from rich.console import Console, RenderableType

# Wide enough that nothing is wrapped or cut for a program that reads the table line by line.
PIPE_WIDTH = 10_000


class Output:
    def __init__(self, form: str) -> None:
        self.json = form == "json"
        self.console = Console(
            width=None if sys.stdout.isatty() else PIPE_WIDTH,
            markup=False,
            highlight=False,
            emoji=False,
            soft_wrap=False,
        )

    def show(self, value: Any, render: Callable[[Any], Iterable[RenderableType]]) -> None:
        """Prints `value`: itself as JSON, or what `render` makes of it."""
        if self.json:
            click.echo(json.dumps(value, indent=2, ensure_ascii=False))
        else:
            for part in render(value):
                self.console.print(part)

    def tell(self, line: RenderableType) -> None:
        """Prints a line of progress: beside the answer where that is JSON, before it where it is for people."""
        (Console(stderr=True, markup=False, highlight=False, emoji=False) if self.json else self.console).print(line)

    def note(self, text: str) -> None:
        """Says something beside the answer, where it cannot end up in a program's input."""
        click.echo(text, err=True)
