"""Real servers from pip's wheels: PostgreSQL and Valkey (which speaks Redis's protocol), each in one directory.

`EmbeddedPostgres(directory)` and `EmbeddedRedis(directory)` are context managers with a `url`; `pipeline up` supervises
them by their `command` instead. Both keep their data through stop, start and kill -9, and before starting end a server
that an earlier run left behind in the same directory. A directory belongs to one caller at a time: nobody else may use
it meanwhile.

`postgres` and `redis` are the two, `server` what they have in common, `account` whom they run as.
"""

from __future__ import annotations

from pipeline_up.embedded.postgres import EmbeddedPostgres
from pipeline_up.embedded.redis import EmbeddedRedis
from pipeline_up.embedded.server import EmbeddedServer, ServerFailed

__all__ = ["EmbeddedPostgres", "EmbeddedRedis", "EmbeddedServer", "ServerFailed"]
