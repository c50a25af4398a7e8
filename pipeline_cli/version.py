"""What `pipeline --version` says: the version, and the commit where it is known."""

from __future__ import annotations

import json
import os
from importlib.metadata import distribution

import click

DISTRIBUTION = "pipeline-service"


def revision() -> str:
    """The commit that is installed: of the image (`PIPELINE_REVISION`), or the one that pip fetched from a repository; "" where
    neither is known."""
    if given := os.environ.get("PIPELINE_REVISION"):
        return given
    origin = json.loads(distribution(DISTRIBUTION).read_text("direct_url.json") or "{}")
    return str(origin.get("vcs_info", {}).get("commit_id", ""))


def show(context: click.Context, parameter: click.Parameter, asked: bool) -> None:
    """The callback of `--version`: print it, and exit."""
    if not asked or context.resilient_parsing:
        return
    commit = revision()
    click.echo(f"pipeline, version {distribution(DISTRIBUTION).version}" + (f", commit {commit}" if commit else ""))
    context.exit()
