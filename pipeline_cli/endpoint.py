"""The options that say which running plugin a command calls, and how."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable
from typing import Any

import click

from pipeline_cli.checking.exchange import Caller
from pipeline_core.errors import WrongParameter
from pipeline_core.plugins import network
from pipeline_core.plugins.packet import Endpoint, check_secret
from pipeline_core.plugins.types import PluginType


def with_caller(
    name: str, types: Iterable[PluginType] = PluginType
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Gives a command the argument URL, and the options of a plugin of one of these types; as `caller` what calls it.

    `name` stands in the key of the plugin that is called.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @click.argument("address", metavar="URL")
        @click.option(
            "--type", "kind", type=click.Choice([*map(str, types)]), required=True, help="The type of the plugin."
        )
        @click.option(
            "--signing-secret",
            envvar="PLUGIN_SIGNING_SECRET",
            default="",
            help="Sign requests, as the feature would.",
        )
        @click.option(
            "--authorization",
            envvar="PLUGIN_AUTHORIZATION",
            default="",
            help="Send this header, as the feature would.",
        )
        @click.option(
            "--timeout", type=click.FloatRange(0.1, 300), default=10, show_default=True, help="Seconds for one call."
        )
        @click.option(
            "--limit", type=click.FloatRange(1), default=300, show_default=True, help="Seconds for all calls together."
        )
        @functools.wraps(function)
        def command(
            address: str,
            kind: str,
            signing_secret: str,
            authorization: str,
            timeout: float,
            limit: float,
            **arguments: Any,
        ) -> Any:
            _check(address, signing_secret)
            plugin_type = PluginType(kind)
            endpoint = Endpoint(f"{plugin_type}.{name}.{name}", plugin_type, address, authorization, signing_secret)
            return function(caller=Caller(endpoint, timeout, time.monotonic() + limit), **arguments)

        return command

    return decorate


def _check(address: str, secret: str) -> None:
    """Raises click.UsageError."""
    try:
        network.check_address(address)
        if secret:
            check_secret(secret, "--signing-secret")
    except WrongParameter as error:
        raise click.UsageError(error.message) from error
