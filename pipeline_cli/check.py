"""`pipeline plugin check`: whether a running plugin does what the service expects."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from pipeline_cli.checking import report, rules
from pipeline_cli.checking.exchange import Caller
from pipeline_cli.checking.packets import Document, is_taskset
from pipeline_cli.endpoint import with_caller
from pipeline_cli.exits import BadFile, Exit
from pipeline_core.errors import WrongParameter
from pipeline_core.plugins.types import PluginType
from pipeline_core.taskset import schema


@click.command()
@with_caller("check")
@click.option(
    "--packet",
    "files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Send the packet in this file; all others are made of the first. Repeatable.",
)
@click.option("--pid", type=click.IntRange(min=1), help="The plugin's process: it is stopped at the end, by SIGTERM.")
@click.option("--json", "as_json", is_flag=True, help="Print what was found as JSON.")
@click.option("--junit", type=click.Path(dir_okay=False, path_type=Path), help="Write what was found as JUnit XML.")
def check(caller: Caller, files: tuple[Path, ...], pid: int | None, as_json: bool, junit: Path | None) -> None:
    """Check a running plugin as the service would call it.

    It is asked right packets of many kinds, and what a hostile network sends. Ends with 0 if all holds, and with 1 if not.
    """
    plugin_type, url = caller.endpoint.type, caller.endpoint.address
    sent = {path.name: _packet(path, plugin_type) for path in files}
    if plugin_type is PluginType.TEMPLATE_TRANSLATOR and not sent:
        raise click.UsageError("give --packet with a job of the kind that this translator translates")
    findings = []
    for finding in rules.run(rules.Target(caller, sent, pid)):
        findings.append(finding)
        if not as_json:
            for line in report.lines(finding):
                click.echo(line)
    if as_json:
        click.echo(json.dumps(report.document(url, plugin_type, findings), indent=2))
    else:
        click.echo(report.summary(findings))
    if junit:
        _write(junit, report.junit(url, plugin_type, findings))
    raise click.exceptions.Exit(Exit.OK if rules.passed(findings) else Exit.JOB_NOT_SUCCEEDED)


def _packet(path: Path, plugin_type: PluginType) -> Document:
    """The packet in a file. Raises BadFile."""
    try:
        document: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadFile(f"{path}: {error}") from error
    needed = ("id", "currentState", "sequence") if plugin_type is PluginType.LIFE_HOOK else ("factors", "header", "job")
    if not isinstance(document, dict) or (missing := [name for name in needed if name not in document]):
        what = "an object" if not isinstance(document, dict) else ", ".join(missing)
        raise BadFile(f"{path}: {what} is missing; what a {plugin_type} is sent was expected")
    if plugin_type in rules.GIVEN_TASKSET:
        try:
            schema.check(document["job"])
        except WrongParameter as error:
            raise BadFile(f"{path}: `job`: {error.message}") from error
    elif plugin_type is PluginType.TEMPLATE_TRANSLATOR and is_taskset(document["job"]):
        raise BadFile(f"{path}: `job` is a TaskSet already; a translator is not asked for it")
    return document


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadFile(f"{path}: {error.strerror}") from error
