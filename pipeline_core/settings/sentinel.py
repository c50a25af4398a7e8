"""The URL of a Redis whose primary is found by Sentinels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self
from urllib.parse import parse_qs, unquote, urlsplit

SCHEME = "sentinel"
PORT = 26379
FORM = "sentinel://:password@one:26379,two:26379,three:26379/0?master=name"
_PARAMETERS = {"master", "sentinel_password"}


@dataclass(frozen=True, slots=True)
class SentinelUrl:
    """Whom to ask for the primary, its name there, and what to connect to it with."""

    sentinels: tuple[tuple[str, int], ...]
    master: str
    username: str | None
    password: str | None
    database: int
    sentinel_password: str | None

    @classmethod
    def parse(cls, url: str) -> Self:
        """Raises ValueError, without the URL, which may have a password."""
        parts = urlsplit(url)
        account, _, hosts = parts.netloc.rpartition("@")
        username, _, password = account.partition(":")
        parameters = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        try:
            if parts.scheme != SCHEME or not parameters.keys() <= _PARAMETERS:
                raise ValueError
            return cls(
                sentinels=tuple(map(_address, hosts.split(","))),
                master=parameters["master"],
                username=unquote(username) or None,
                password=unquote(password) or None,
                database=int(parts.path.strip("/") or 0),
                sentinel_password=parameters.get("sentinel_password"),
            )
        except (ValueError, KeyError):
            raise ValueError(f"is no URL of Sentinels; it should look like {FORM}") from None


def is_sentinel(url: str) -> bool:
    """Whether the URL names Sentinels and no Redis."""
    return urlsplit(url).scheme == SCHEME


def _address(host: str) -> tuple[str, int]:
    parts = urlsplit(f"//{host}")
    if not parts.hostname:
        raise ValueError
    return parts.hostname, parts.port or PORT
