"""A click group that imports a command when it is invoked, not when it is listed."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from pipeline_cli.exits import Exit

EXTRAS = {"rich": "cli", "yaml": "cli"}
"""The extra that a package comes with, if it is not `server`."""
OWN = ("pipeline_cli", "pipeline_core", "pipeline_up", "workers", "api")
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
            package = (error.name or "").partition(".")[0]
            if package in OWN:
                raise
            raise click.ClickException(
                f"this command needs the package {package}: pip install 'pipeline-service[{EXTRAS.get(package, 'server')}]'"
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

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with quiet_without_reader():
            # Prints the help and the version.
            return super().make_context(*args, **kwargs)

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
            with quiet_without_reader():
                return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo(err=True)
            ctx.exit(Exit.INTERRUPTED)


@contextmanager
def quiet_without_reader() -> Iterator[None]:
    """Ends the command as done when the reader of its output, such as `head`, has closed the pipe.

    A short output may be written before the reader is gone, so any other exit code would depend on which was faster.
    """
    try:
        yield
    except BrokenPipeError:
        drop_output()
        raise click.exceptions.Exit(Exit.OK) from None


def drop_output() -> None:
    """Redirect the rest of the output to /dev/null, so that the flush at interpreter exit does not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
