"""A PostgreSQL and its synchronous standby: both real servers, on ports of the loopback interface."""

from __future__ import annotations

import secrets
import signal
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import psutil
import psycopg2

from pipeline_core.database.migrate import upgrade
from pipeline_up.embedded import EmbeddedPostgres
from pipeline_up.embedded.postgres import NAME, configuration_text
from pipeline_up.embedded.redis import HOST, free_port
from tests.waiting import HANG_SECONDS, wait_for

STANDBY = "standby"


class NetworkPostgres(EmbeddedPostgres):
    """A server that listens on a port, and serves a standby."""

    port: int
    replication_password = ""

    @property
    def address(self) -> str:
        """Host and port."""
        return f"{HOST}:{self.port}"

    def _prepare_files(self) -> None:
        is_new = not self._data.exists()
        super()._prepare_files()
        self.port = free_port()
        self.url = f"postgresql://{NAME}:{self._password()}@{self.address}/{NAME}"
        self.configure(listen_addresses=HOST, port=str(self.port))
        if is_new:
            self.replication_password = secrets.token_urlsafe(16)
            self._run(
                "postgres", "--single", "-D", str(self._data), "postgres",
                text=f"CREATE ROLE replication REPLICATION LOGIN PASSWORD '{self.replication_password}'\n",
            )  # fmt: skip
            access = f"local all all scram-sha-256\nhost all,replication all {HOST}/32 scram-sha-256\n"
            self._write(self._data / "pg_hba.conf", access)

    def configure(self, **settings: str) -> None:
        """Set these parameters; a running server reads them on SIGHUP."""
        file = self._data / "postgresql.conf"
        self._write(file, file.read_text() + configuration_text(settings))

    def wait_for_standby(self) -> None:
        """Have every commit wait for the standby from now on."""
        assert self._process
        self.configure(synchronous_standby_names=STANDBY)
        self._process.send_signal(signal.SIGHUP)
        with closing(psycopg2.connect(self.url)) as connection, connection.cursor() as cursor:

            def synchronous() -> bool:
                cursor.execute("SELECT current_setting('synchronous_standby_names')")
                return cursor.fetchone() == (STANDBY,)

            connection.autocommit = True
            wait_for(synchronous, "the standby to be synchronous")

    def vanish(self) -> None:
        """Kill it with all its processes at once, as the end of its machine would."""
        assert self._process
        main, self._process = self._process, None
        processes = [psutil.Process(main.pid), *psutil.Process(main.pid).children(recursive=True)]
        for process in processes:
            process.suspend()
        for process in processes:
            process.kill()
        main.wait(HANG_SECONDS)


class StandbyPostgres(NetworkPostgres):
    """The standby of a server that runs when it is started first."""

    def __init__(self, directory: Path, primary: NetworkPostgres) -> None:
        super().__init__(directory)
        self.primary = primary

    def _prepare_files(self) -> None:
        self._write(self.directory / "password", self.primary._password())
        source = (
            f"host={HOST} port={self.primary.port} user=replication password={self.primary.replication_password} "
            f"application_name={STANDBY}"
        )
        self._run("pg_basebackup", "-d", source, "-D", str(self._data), "--write-recovery-conf", "--checkpoint=fast")
        super()._prepare_files()

    def promote(self) -> None:
        """Make it the primary, and wait until it is."""
        self._run("pg_ctl", "promote", "-w", "-D", str(self._data))


@contextmanager
def primary_and_standby(directory: Path) -> Iterator[tuple[NetworkPostgres, StandbyPostgres, str]]:
    """Both servers, with all tables, and the URL that names both and leads to the one that can be written to."""
    with ExitStack() as servers:
        primary = servers.enter_context(NetworkPostgres(directory / "primary"))
        upgrade(primary.url)
        standby = servers.enter_context(StandbyPostgres(directory / "standby", primary))
        primary.wait_for_standby()
        hosts = f"{primary.address},{standby.address}"
        yield (
            primary,
            standby,
            f"postgresql://{NAME}:{primary._password()}@{hosts}/{NAME}?target_session_attrs=read-write",
        )
