"""A server that can be killed, stopped for a while and started again, on the same address, with its data or without."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from redis import Redis

from pipeline_up.embedded import EmbeddedPostgres, EmbeddedRedis
from tests.waiting import HANG_SECONDS, wait_for


class Restartable:
    """Runs one of the embedded servers; its address stays the same until the end."""

    def __init__(self, server: EmbeddedRedis | EmbeddedPostgres) -> None:
        server.prepare()
        self.server = server
        self.url = server.url
        self.start()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        with self.server.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self.server.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        wait_for(self.server.ready, f"{self.server.name} to start")

    def end(self, number: int = signal.SIGKILL) -> None:
        """Kill it with this signal."""
        self._process.send_signal(number)
        self._process.wait(HANG_SECONDS)

    def pause(self) -> None:
        """Let it hang (SIGSTOP): connections stay open, and it does not answer."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it answer again."""
        self._process.send_signal(signal.SIGCONT)

    def forget(self) -> None:
        """Remove the data files of a Redis while it does not run."""
        shutil.rmtree(self.server.directory / "appendonlydir")

    def redis(self) -> Redis:
        """A client."""
        return Redis.from_url(self.url, socket_timeout=10)


@contextmanager
def restartable(server: EmbeddedRedis | EmbeddedPostgres) -> Iterator[Restartable]:
    """The server, until the end of the block."""
    running = Restartable(server)
    try:
        yield running
    finally:
        with suppress(ProcessLookupError):
            running.go_on()
        running.end()
        server.clean()
