"""The base class of both embedded servers: their directory, and starting and stopping their process."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from pipeline_core.errors import ConfigurationError, PipelineError
from pipeline_up import os_processes
from pipeline_up.embedded.account import Account, account_for

START_SECONDS = 60.0
STOP_SECONDS = 30.0
LOG_TAIL = 2000


class ServerFailed(PipelineError):
    """An embedded server did not start."""


class EmbeddedServer(ABC):
    """A server whose files are all in `directory`, which it creates.

    Either use it as a context manager (or `start` and `stop`), or `prepare` it and run `command` under a supervisor.
    `durable=False` is for tests: without fsync, data may be lost when the machine crashes.
    """

    name: ClassVar[str]
    stop_signal: ClassVar[signal.Signals]
    url: str
    """Where it listens, password included; known after `prepare`."""

    def __init__(self, directory: Path, *, durable: bool = True) -> None:
        self.directory = directory.resolve()
        self.durable = durable
        self.account: Account = account_for(self.directory)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    @abstractmethod
    def argv(self) -> list[str]:
        """The server's own command line."""

    @property
    @abstractmethod
    def identity(self) -> list[str]:
        """The last arguments of the command line; they identify the server of this directory."""

    @abstractmethod
    def ready(self) -> bool:
        """Whether it answers."""

    @abstractmethod
    def _prepare_files(self) -> None: ...

    def clean(self) -> None:  # noqa: B027 - most have nothing outside their directory
        """Remove what lives outside the directory."""

    @property
    def command(self) -> list[str]:
        """The command line that runs it as its account; the server stops when the process that runs it dies."""
        reaches = [Path(self.argv[0]), self.directory]
        return self.account.command(self.argv, reaches=reaches, death_signal=self.stop_signal.name.removeprefix("SIG"))

    def stopping(self) -> bool:
        """Whether it takes no more connections, although it still runs."""
        return False

    def prepare(self) -> None:
        """End a server that was left behind here, and create or update the files.

        Raises ConfigurationError when the directory cannot be used, ServerFailed when its files cannot be made.
        """
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            self.account.own(self.directory, 0o700)
        except OSError as error:
            raise ConfigurationError(f"{self.directory} cannot be used for {self.name}: {error.strerror}") from error
        self.reap()
        self._prepare_files()

    def start(self) -> str:
        """Start it, wait until it answers, and return its URL. Raises what `prepare` raises."""
        self.prepare()
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        process = self._process
        answered = os_processes.wait_until(lambda: process.poll() is not None or self.ready(), START_SECONDS)
        if not answered or process.returncode is not None:
            self.stop()
            tail = self.log_path.read_text(errors="replace")[-LOG_TAIL:]
            raise ServerFailed(f"{self.name} did not start. The end of {self.log_path}:\n{tail}")
        return self.url

    def stop(self) -> None:
        """Stop it cleanly; kill it when that takes more than 30 s."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(self.stop_signal)
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.clean()

    def reap(self) -> None:
        """End servers of this directory that an earlier run left behind."""
        mine = {os.geteuid(), self.account.uid}
        orphans = [process for process in os_processes.all_processes() if self._is_server(process, mine)]
        for orphan in orphans:
            os_processes.send(orphan, self.stop_signal)
        if not os_processes.wait_until(lambda: not any(orphan.alive for orphan in orphans), STOP_SECONDS):
            for orphan in orphans:
                os_processes.send(orphan, signal.SIGKILL)
            os_processes.wait_until(lambda: not any(orphan.alive for orphan in orphans), STOP_SECONDS)

    def _is_server(self, process: os_processes.Process, owners: set[int]) -> bool:
        words = os_processes.command_line(process.pid)
        program, rest = words[:1], words[1:]
        if rest != self.identity or Path(program[0]).name != Path(self.argv[0]).name:
            return False
        try:
            return Path(f"/proc/{process.pid}").stat().st_uid in owners
        except FileNotFoundError:
            return False

    @property
    def log_path(self) -> Path:
        return self.directory / f"{self.name}.log"

    def _password(self) -> str:
        """The directory's password, made at the first start; only the account can read it."""
        path = self.directory / "password"
        if not path.exists():
            self._write(path, secrets.token_urlsafe(32))
        return path.read_text()

    def _write(self, path: Path, text: str) -> None:
        """Write a file that the account owns, atomically."""
        draft = path.with_name(path.name + ".new")
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        self.account.own(draft, 0o600)
        draft.replace(path)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
