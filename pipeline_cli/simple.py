"""Commands that are one request: they show one thing, change one thing, or list a page of things."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import click
from rich.console import RenderableType

from pipeline_cli.client import ServiceClient
from pipeline_cli.options import with_service
from pipeline_cli.output import Output

Render = Callable[[Any], Iterable[RenderableType]]


def segments(path: str, target: str) -> list[str]:
    """The segments below /v1 of a path in which `{}` stands for the target, such as `runs/{}/dismiss`."""
    return ["v1", *(target if part == "{}" else part for part in path.split("/"))]


def show_command(name: str, path: str, render: Render, *, help: str, metavar: str = "NAME") -> click.Command:
    """A command that shows what is at `path`."""

    @click.command(name, help=help)
    @click.argument("target", metavar=metavar)
    @with_service
    def command(service: ServiceClient, out: Output, target: str) -> None:
        out.show(service.get(*segments(path, target)).payload, render)

    return command


def list_command(name: str, path: str, render: Render, *, help: str) -> click.Command:
    """A command that shows the whole list at `path`, which has no `{}`."""

    @click.command(name, help=help)
    @with_service
    def command(service: ServiceClient, out: Output) -> None:
        out.show(service.all(*segments(path, "")), render)

    return command


def change_command(
    name: str, method: str, path: str, done: str, *, help: str, metavar: str = "NAME", body: Any = None
) -> click.Command:
    """A command that sends `method` (`PUT` or `DELETE`) to `path` and prints `done`, in which `{}` stands for the target."""

    @click.command(name, help=help)
    @click.argument("target", metavar=metavar)
    @with_service
    def command(service: ServiceClient, out: Output, target: str) -> None:
        where = segments(path, target)
        answer = service.delete(*where) if method == "DELETE" else service.put(*where, body=body)
        out.show(answer.envelope, lambda _: [done.replace("{}", target)])

    return command


def with_paging(what: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Gives a command the options of a page of a list of `what`."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        size = click.option(
            "--page-size", "pageSize", type=click.IntRange(1, 500), help=f"{what} on a page.  [default: 20]"
        )
        page = click.option("--page", "pageNumber", type=click.IntRange(min=1), help="Which page, from 1.")
        return page(size(function))

    return decorate


def show_page(
    service: ServiceClient, out: Output, path: str, render: Render, what: str, filters: Mapping[str, Any]
) -> None:
    """Shows the page of a list that `filters` select (those that are None are left out), and notes when there is more."""
    given = {name: value for name, value in filters.items() if value is not None}
    answer = service.get(*segments(path, ""), params=given)
    out.show(answer.payload, render)
    if len(answer.payload) < int(answer.headers.get("X-Total-Count", 0)):
        more = "more than " if answer.headers.get("X-Total-Count-Exact") == "false" else ""
        out.note(f"{more}{answer.headers['X-Total-Count']} {what}; --page has the others")
