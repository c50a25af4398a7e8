"""`pipeline plugin check`: whether a running plugin does what the service expects."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click

from pipeline_cli.checking import report, rules
from pipeline_cli.checking.exchange import Caller
from pipeline_cli.checking.packets import Document, is_taskset
from pipeline_cli.exits import BadFile, Exit
from pipeline_core.errors import WrongParameter
from pipeline_core.plugins import network
from pipeline_core.plugins.packet import Endpoint, check_secret
from pipeline_core.plugins.types import PluginType
from pipeline_core.taskset import schema


@click.command()
@click.argument("url", metavar="URL")
@click.option(
    "--type", "kind", type=click.Choice([*map(str, PluginType)]), required=True, help="The type of the plugin."
)
@click.option(
    "--signing-secret", envvar="PLUGIN_SIGNING_SECRET", default="", help="Sign requests, as the feature would."
)
@click.option(
    "--authorization", envvar="PLUGIN_AUTHORIZATION", default="", help="Send this header, as the feature would."
)
@click.option(
    "--packet",
    "files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Send the packet in this file; all others are made of the first. Repeatable.",
)
@click.option("--timeout", type=click.FloatRange(0.1, 300), default=10, show_default=True, help="Seconds for one call.")
@click.option("--limit", type=click.FloatRange(1), default=300, show_default=True, help="Seconds for the whole check.")
@click.option("--pid", type=click.IntRange(min=1), help="The plugin's process: it is stopped at the end, by SIGTERM.")
@click.option("--json", "as_json", is_flag=True, help="Print what was found as JSON.")
@click.option("--junit", type=click.Path(dir_okay=False, path_type=Path), help="Write what was found as JUnit XML.")
def check(
    url: str,
    kind: str,
    signing_secret: str,
    authorization: str,
    files: tuple[Path, ...],
    timeout: float,
    limit: float,
    pid: int | None,
    as_json: bool,
    junit: Path | None,
) -> None:
    """Check a running plugin as the service would call it.

    It is asked right packets of many kinds, and what a hostile network sends. Ends with 0 if all holds, and with 1 if not.
    """
    plugin_type = PluginType(kind)
    _check_arguments(url, signing_secret)
    sent = {path.name: _packet(path, plugin_type) for path in files}
    if plugin_type is PluginType.TEMPLATE_TRANSLATOR and not sent:
        raise click.UsageError("give --packet with a job of the kind that this translator translates")
    endpoint = Endpoint(f"{plugin_type}.check.check", plugin_type, url, authorization, signing_secret)
    target = rules.Target(Caller(endpoint, timeout, time.monotonic() + limit), sent, pid)
    findings = []
    for finding in rules.run(target):
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


def _check_arguments(url: str, secret: str) -> None:
    try:
        network.check_address(url)
        if secret:
            check_secret(secret, "--signing-secret")
    except WrongParameter as error:
        raise click.UsageError(error.message) from error


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
