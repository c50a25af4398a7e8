"""PgBouncer in transaction mode in front of a PostgreSQL: Debian's program."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from pipeline_core.database.urls import connection_parameters
from pipeline_up.embedded.postgres import takes_connections
from pipeline_up.embedded.redis import HOST, free_port
from pipeline_up.embedded.server import EmbeddedServer
from tests.waiting import HANG_SECONDS

SESSIONS = 6
"""How many sessions of PostgreSQL all connections share."""
PROGRAM = shutil.which("pgbouncer", path="/usr/sbin:/usr/bin:/usr/local/bin")


class PgBouncer(EmbeddedServer):
    """The pooler; its port stays the same."""

    name: ClassVar[str] = "pgbouncer"
    stop_signal: ClassVar[signal.Signals] = signal.SIGINT

    def __init__(self, directory: Path, database_url: str) -> None:
        super().__init__(directory)
        self.port = free_port()
        self.server = connection_parameters(database_url)
        self.url = "postgresql://{user}:{password}@{host}:{port}/{dbname}".format(
            **{**self.server, "host": HOST, "port": self.port}
        )

    @property
    def argv(self) -> list[str]:
        assert PROGRAM
        return [PROGRAM, *self.identity]

    @property
    def identity(self) -> list[str]:
        return [str(self.directory / "pgbouncer.ini")]

    def ready(self) -> bool:
        return takes_connections(self.url)

    def _prepare_files(self) -> None:
        users = self.directory / "users"
        self._write(users, '"{user}" "{password}"\n'.format(**self.server))
        lines = (
            "[databases]",
            f"* = host={self.server['host']} port={self.server.get('port', 5432)}",
            "[pgbouncer]",
            f"listen_addr = {HOST}",
            f"listen_port = {self.port}",
            "unix_socket_dir =",
            "auth_type = scram-sha-256",
            f"auth_file = {users}",
            "pool_mode = transaction",
            f"default_pool_size = {SESSIONS}",
            "max_client_conn = 1000",
            "ignore_startup_parameters = options",
            "server_login_retry = 1",
        )
        self._write(Path(self.identity[0]), "\n".join(lines) + "\n")

    def vanish(self) -> None:
        """Kill it."""
        assert self._process
        self._process.kill()
        self._process.wait(HANG_SECONDS)


@contextmanager
def pooled(directory: Path, database_url: str) -> Iterator[PgBouncer]:
    """A PgBouncer in front of the server of this database, until the end of the block."""
    with PgBouncer(directory, database_url) as pooler:
        yield pooler
