"""`pipeline doctor`: what is wrong with an installation."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import click

from pipeline_cli.exits import Exit
from pipeline_cli.version import revision
from pipeline_core import runtime
from pipeline_core.common import log
from pipeline_core.errors import ConfigurationError
from pipeline_core.operations.doctor import gathering, rules
from pipeline_core.operations.doctor.facts import Facts
from pipeline_core.operations.doctor.rules import Finding
from pipeline_core.settings import settings
from pipeline_up import running
from workers import queues
from workers.processes import API_WORKERS

BESIDE_WORKERS = API_WORKERS + 2
"""Processes of one API, beat and the watcher."""


@click.command()
@click.option(
    "--data-dir", type=click.Path(path_type=Path), help="That of a running `pipeline up`. [default: PIPELINE_DATA_DIR]"
)
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@click.pass_context
def doctor(context: click.Context, data_dir: Path | None, as_json: bool) -> None:
    """Show what is wrong with this installation, and what to do.

    To be run where the service runs, with the settings of its processes: as they are in the environment, or those of a
    `pipeline up` that runs in the data directory. Exits 1 when anything is wrong.
    """
    facts, found = _look(data_dir)
    versions = facts.versions | {"commit": revision() or "unknown"} if facts else {}
    if as_json:
        report = {"versions": versions, "findings": [asdict(finding) for finding in found]}
        click.echo(json.dumps(report, indent=2, ensure_ascii=False))
    else:
        for line in lines(versions, found):
            click.echo(line)
    if found:
        context.exit(Exit.JOB_NOT_SUCCEEDED)


def lines(versions: Mapping[str, str], found: Sequence[Finding]) -> Iterator[str]:
    """The versions and the findings, for people to read."""
    if versions:
        yield ", ".join(f"{name} {version}" for name, version in versions.items())
    for finding in found:
        yield f"✗ {finding.where}: {finding.wrong}"
        yield f"    {finding.advice}"
        yield f"    {finding.docs}"
    yield f"{len(found)} {'finding' if len(found) == 1 else 'findings'}" if found else "nothing is wrong"


def _look(data_dir: Path | None) -> tuple[Facts | None, list[Finding]]:
    try:
        if data_dir or not settings().database_url:
            _take_settings_of(data_dir or settings().data_dir, required=data_dir is not None)
        # Log lines go to standard error, beside what is printed.
        log.configure(settings())
        facts = gathering.gather(queues.lengths, other_processes=BESIDE_WORKERS)
    except ConfigurationError as error:
        return None, [rules.invalid_settings(error.message)]
    return facts, rules.findings(facts, settings())


def _take_settings_of(data_dir: Path, *, required: bool) -> None:
    """Use the settings of the processes that run in the data directory. Raises click.UsageError when they are required and none
    runs."""
    found = {name: value for name, value in running.environment(data_dir).items() if name.startswith("PIPELINE_")}
    if not found and required:
        raise click.UsageError(f"no `pipeline up` of this account runs in {data_dir}")
    os.environ.update(found)
    runtime.restart()
