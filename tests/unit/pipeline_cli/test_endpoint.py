"""The options that say which plugin a command calls."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from pipeline_cli.checking.exchange import Caller
from pipeline_cli.endpoint import with_caller
from pipeline_cli.exits import Exit
from pipeline_core.plugins.types import PluginType

SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="


@click.command()
@with_caller("demo", [PluginType.ACCESS_GATE])
def demo(caller: Caller) -> None:
    endpoint = caller.endpoint
    click.echo(f"{endpoint.key} {endpoint.address} {endpoint.signing_secret == SECRET} {caller.seconds:g}")


def test_a_command_is_given_what_calls_the_plugin() -> None:
    words = ["http://127.0.0.1:9/", "--type", "AccessGate", "--timeout", "3"]
    result = CliRunner().invoke(demo, words, env={"PLUGIN_SIGNING_SECRET": SECRET})
    assert result.output.split() == ["AccessGate.demo.demo", "http://127.0.0.1:9/", "True", "3"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["http://169.254.169.254/", "--type", "AccessGate"], "link-local"),
        (["http://127.0.0.1:9/", "--type", "LifeHook"], "LifeHook"),
        (["http://127.0.0.1:9/", "--type", "AccessGate", "--signing-secret", "short"], "whsec_"),
    ],
)
def test_what_cannot_be_called_is_refused(words: list[str], says: str) -> None:
    result = CliRunner().invoke(demo, words)
    assert result.exit_code == Exit.USAGE
    assert says in result.output
