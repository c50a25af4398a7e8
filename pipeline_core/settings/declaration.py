"""How settings are declared: what reads the value of a variable, what values it accepts, and within which bounds."""

from __future__ import annotations

import base64
import ipaddress
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import Field, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from environs import Env, EnvError

from pipeline_core.settings.sentinel import SCHEME, SentinelUrl, is_sentinel

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Pairs = tuple[tuple[str, str], ...]
KEY_BYTES = 32
MAIL_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?")
RECEIVERS = (
    "https",
    "http",
    *(f"{chat}+{scheme}" for chat in ("slack", "dingtalk", "feishu") for scheme in ("https", "http")),
)
"""The schemes of URLs of alert receivers, besides `mailto`."""
MAIL_SERVERS = ("smtp", "smtps", "smtp+plain")
NAMESPACE = re.compile("[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
Parser = Callable[[Env, str], Any]
"""Reads a variable, by its name, from the environment. Raises EnvError or ValueError with what would be right."""


def networks(env: Env, name: str) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(word) for word in words(env, name))


def words(env: Env, name: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in env.str(name).split(",") if word.strip())


def namespaces(env: Env, name: str) -> tuple[str, ...]:
    names = words(env, name)
    for word in names:
        if not NAMESPACE.fullmatch(word):
            raise EnvError(f'"{word}" is no name of a Kubernetes namespace: up to 63 of a-z, 0-9 and -')
    return names


def pairs(env: Env, name: str) -> Pairs:
    try:
        table = json.loads(env.str(name))
    except ValueError as error:
        raise EnvError(f"is not JSON: {error}") from None
    if not isinstance(table, dict) or not all(isinstance(value, str | int) and value != "" for value in table.values()):
        raise EnvError('must be a JSON object of names, as {"gpu": "nvidia.com/gpu"}')
    return tuple((key, str(value)) for key, value in table.items())


def ports(env: Env, name: str) -> str:
    text = str(env.str(name))
    match = re.fullmatch(r"(\d{1,5})-(\d{1,5})", text, re.ASCII)
    if not match or not 1 <= int(match[1]) <= int(match[2]) <= 65535:
        raise EnvError(f'"{text}" is no range of ports, as 20000-29999')
    return text


def path(env: Env, name: str) -> Path:
    return Path(env.str(name)).expanduser()


def keys(env: Env, name: str) -> str:
    found = words(env, name)
    for word in found:
        try:
            fits = len(base64.urlsafe_b64decode(word)) == KEY_BYTES
        except ValueError:
            fits = False
        if not fits:
            raise EnvError(f"must be keys of {KEY_BYTES} bytes as URL-safe base64, separated by commas")
    return ",".join(found)


def integer(env: Env, name: str) -> int:
    return int(env.int(name))


def number(env: Env, name: str) -> float:
    return float(env.float(name))


def boolean(env: Env, name: str) -> bool:
    return bool(env.bool(name))


def named(form: str) -> Parser:
    """A text that is meant as what `form` says."""

    def parse(env: Env, name: str) -> str:
        return str(env.str(name))

    parse.__doc__ = form
    return parse


def url(*schemes: str) -> Parser:
    """A URL with one of these schemes. It may hold a password, so errors do not show it."""
    begins = " or ".join(f"`{scheme}:`" for scheme in schemes)

    def parse(env: Env, name: str) -> str:
        text = str(env.str(name))
        if urlsplit(text).scheme not in schemes:
            raise EnvError(f"is no URL that begins with {begins}")
        return text

    parse.__doc__ = f"a URL that begins with {begins}"
    return parse


def redis_or_sentinels(env: Env, name: str) -> str:
    """a URL that begins with `redis:`, `rediss:` or `sentinel:`"""
    text = url("redis", "rediss", SCHEME)(env, name)
    if is_sentinel(text):
        try:
            SentinelUrl.parse(text)
        except ValueError as error:
            raise EnvError(str(error)) from None
    return str(text)


def receivers(env: Env, name: str) -> Pairs:
    """Names and URLs; one URL alone has the name "". They may hold passwords, so errors do not show them."""
    text = str(env.str(name)).strip()
    found = pairs(env, name) if text.startswith("{") else (("", text),)
    for receiver, address in found:
        where = f'of "{receiver}" ' if receiver else ""
        if text.startswith("{") and not NAMESPACE.fullmatch(receiver):
            raise EnvError(f'"{receiver}" is no name of a receiver: up to 63 of a-z, 0-9 and -')
        scheme, _, rest = address.partition(":")
        if scheme == "mailto":
            if not MAIL_ADDRESS.fullmatch(unquote(rest)):
                raise EnvError(f"the URL {where}must be `mailto:` and one address, as mailto:ops@example.org")
        elif scheme not in RECEIVERS or not _has_host(address):
            schemes = ", ".join(f"`{scheme}://`" for scheme in RECEIVERS)
            raise EnvError(f"the URL {where}must begin with one of {schemes} and `mailto:`, and name a host")
    return found


def _has_host(url: str) -> bool:
    try:
        return bool(urlsplit(url).hostname)
    except ValueError:
        return False


def mail_address(env: Env, name: str) -> str:
    text = str(env.str(name))
    if not MAIL_ADDRESS.fullmatch(text):
        raise EnvError(f'"{text}" is no mail address, as pipeline@example.org')
    return text


def mail_server(env: Env, name: str) -> str:
    """The URL of a mail server. It may hold a password, so errors do not show it."""
    text = str(env.str(name))
    try:
        parts = urlsplit(text)
        complete = parts.scheme in MAIL_SERVERS and bool(parts.hostname) and parts.port != 0
    except ValueError:
        complete = False
    if not complete:
        schemes = ", ".join(f"`{scheme}://`" for scheme in MAIL_SERVERS)
        raise EnvError(f"must be one of {schemes}, a host, and a port from 1 to 65535 or none")
    if parts.scheme == "smtp+plain" and parts.username is not None:
        raise EnvError("must not have a user with `smtp+plain://`, which would send the password in the clear")
    return text


def choice(*choices: str) -> Parser:
    def parse(env: Env, name: str) -> str:
        value = str(env.str(name))
        if value not in choices:
            raise EnvError(f'"{value}" is not one of {", ".join(choices)}')
        return value

    parse.__doc__ = " or ".join(f"`{choice}`" for choice in choices)
    return parse


FORMS: Mapping[Parser, str] = {
    networks: "networks in CIDR notation, separated by commas",
    words: "words, separated by commas",
    namespaces: "names, separated by commas",
    pairs: "a JSON object",
    ports: "`first-last`",
    receivers: "a URL, or a JSON object of names and URLs",
    mail_address: "a mail address",
    mail_server: "a URL that begins with `smtp:`, `smtps:` or `smtp+plain:`",
    path: "a path",
    keys: "keys, separated by commas",
    integer: "a whole number",
    number: "a number",
    boolean: "`true` or `false` (also `1`, `0`, `yes`, `no`, `on`, `off`)",
}
"""What values each parser accepts, for the documentation."""


def accepted(setting: Field[Any]) -> str:
    """What values the setting accepts, as a phrase."""
    parse = setting.metadata["parse"]
    form = FORMS.get(parse) or str(parse.__doc__)
    return f"{form}, {setting.metadata['least']} or more" if parse in NUMBERS else form


NUMBERS = (integer, number)
MOST = {"s": 10**9, "days": 10**4, "bytes": 10**15}
"""The greatest value of a number with this unit: what is longer than 30 years, or larger than a petabyte, is a mistake."""
MOST_OF_OTHERS = 10**6


def most(setting: Field[Any]) -> int:
    """The greatest value that a number may have."""
    return MOST.get(setting.metadata["unit"], MOST_OF_OTHERS)


def setting(parse: Parser, default: Any, doc: str, *, unit: str = "", secret: bool = False, least: int = 0) -> Any:
    """`least` is the least value of a number."""
    return field(default=default, metadata={"parse": parse, "doc": doc, "unit": unit, "secret": secret, "least": least})


def variable(setting: Field[Any]) -> str:
    """The environment variable that sets this field."""
    return f"PIPELINE_{setting.name.upper()}"
