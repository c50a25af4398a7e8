"""`pipeline completion`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    In ~/.bashrc: eval "$(pipeline completion bash)"; in ~/.zshrc: eval "$(pipeline completion zsh)".
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"{shell} has no completion")
    click.echo(kind(ctx.find_root().command, {}, "pipeline", "_PIPELINE_COMPLETE").source())
