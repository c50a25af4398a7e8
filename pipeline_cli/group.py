"""A click group that imports a command when it is invoked, not when it is listed."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from pipeline_cli.exits import Exit

CLI_EXTRA = ("rich", "yaml")
"""Packages of the extra `cli`, which the image of the service lacks."""
WRITE_FAULTS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


class Entry(NamedTuple):
    """Where a command is (`module:name`), and its one line in the list of commands."""

    target: str
    summary: str

    def load(self) -> click.Command:
        module, name = self.target.split(":")
        try:
            command: click.Command = getattr(import_module(module), name)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in CLI_EXTRA:
                raise
            raise click.ClickException(
                f"this command needs the package {error.name}: pip install 'pipeline-service[cli]'"
            ) from error
        return command


class LazyGroup(click.Group):
    def __init__(self, *args: Any, entries: Mapping[str, Entry], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.entries = entries

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.entries)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        entry = self.entries.get(name)
        return entry.load() if entry else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in self.entries.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        named = [
            CompletionItem(name, help=entry.summary)
            for name, entry in self.entries.items()
            if name.startswith(incomplete)
        ]
        return named + click.Command.shell_complete(self, ctx, incomplete)

    def main(self, *args: Any, **kwargs: Any) -> Any:
        if sys.stdout is None:
            click.echo("Error: there is no standard output to write to", err=True)
            sys.exit(Exit.UNWRITABLE)
        try:
            return super().main(*args, **kwargs)
        except OSError as error:
            if error.errno not in WRITE_FAULTS:
                raise
            drop_output()
            click.echo(f"Error: the output cannot be written: {error.strerror}", err=True)
            sys.exit(Exit.UNWRITABLE)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo(err=True)
            ctx.exit(Exit.INTERRUPTED)
        except BrokenPipeError:
            # The reader, such as `head`, has closed the pipe.
            drop_output()
            ctx.exit(Exit.PIPE_CLOSED)


def drop_output() -> None:
    """Redirect the rest of the output to /dev/null, so that the flush at interpreter exit does not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
