"""The URL of a database, in the form of PostgreSQL's own library: several hosts, and all of its parameters."""

from __future__ import annotations

import re

from psycopg2 import ProgrammingError
from psycopg2.extensions import parse_dsn

from pipeline_core.errors import ConfigurationError

_DRIVER = re.compile(r"^postgresql\+psycopg2(?=:)")


def connection_parameters(url: str) -> dict[str, str]:
    """The parameters of a connection, by the names that libpq has for them.

    `postgresql://user:password@one:5432,two:5432/name?target_session_attrs=read-write` has two hosts. Raises
    ConfigurationError, without the URL, which may have a password.
    """
    try:
        return dict(parse_dsn(_DRIVER.sub("postgresql", url)))
    except ProgrammingError:
        raise ConfigurationError(
            "PIPELINE_DATABASE_URL is not the URL of a database; it should look like "
            "postgresql://user:password@127.0.0.1:5432/pipeline"
        ) from None
