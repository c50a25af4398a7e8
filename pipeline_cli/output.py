"""The output of a command: tables for people, or JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from typing import Any

import click
from rich.console import Console, RenderableType

from pipeline_cli.group import drop_output

# Wide enough that nothing is wrapped or cut for a program that reads the table line by line.
PIPE_WIDTH = 10_000


class PipedConsole(Console):
    """A console whose command goes on without output when the reader, such as `head`, has closed the pipe: so the exit code
    says what became of the command, whenever the reader went."""

    def on_broken_pipe(self) -> None:
        drop_output()


class Output:
    def __init__(self, form: str) -> None:
        self.json = form == "json"
        self.console = PipedConsole(
            width=None if sys.stdout.isatty() else PIPE_WIDTH,
            markup=False,
            highlight=False,
            emoji=False,
            soft_wrap=False,
        )

    def show(self, value: Any, render: Callable[[Any], Iterable[RenderableType]]) -> None:
        """Prints `value` as JSON, or what `render` makes of it."""
        if self.json:
            try:
                click.echo(json.dumps(value, indent=2, ensure_ascii=False))
            except BrokenPipeError:
                drop_output()
        else:
            for part in render(value):
                self._print(part)

    def _print(self, part: RenderableType) -> None:
        if sys.stdout.isatty():
            self.console.print(part)
            return
        # A table fills each row with blanks, as far as its longest row goes.
        with self.console.capture() as captured:
            self.console.print(part)
        self.console.out("\n".join(line.rstrip(" ") for line in captured.get().split("\n")), end="", highlight=False)

    def progress(self, line: RenderableType) -> None:
        """Prints a line of progress: on standard error with `--output json`, else on standard output."""
        (Console(stderr=True, markup=False, highlight=False, emoji=False) if self.json else self.console).print(line)

    def note(self, text: str) -> None:
        """Prints a remark on standard error."""
        click.echo(text, err=True)
