"""Starts services, restarts those that end, and stops all of them in order."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from types import FrameType

from pipeline_core.errors import PipelineError
from pipeline_up import os_processes
from pipeline_up.data_directory import RUN_VARIABLE, DataDirectory
from pipeline_up.embedded.account import Account
from pipeline_up.logs import rotate, tail
from pipeline_up.service import Service, backoff

STARTS_TRIED = 3
STEADY_SECONDS = 60.0
FAST_POLL_SECONDS = 0.05
SLOW_POLL_SECONDS = 2.0
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Change(StrEnum):
    """What happened to a service."""

    READY = "ready"
    EXITED = "ended"
    STOPPED = "stopped"
    KILLED = "killed"


Report = Callable[[str, Change, str], None]


class StartFailed(PipelineError):
    """A service did not become ready."""


class StopRequested(Exception):
    """A stop signal arrived before everything was ready."""


class Child:
    """A service with its current process, if it has one."""

    def __init__(self, service: Service, log: Path) -> None:
        self.service = service
        self.log = log
        self.process: subprocess.Popen[bytes] | None = None
        self.ready = False
        self.failures = 0
        self.started_at = 0.0
        self.start_at = 0.0

    def spawn(self, environment: dict[str, str]) -> int:
        """Start the process, as the leader of a session and a group of its own, and return its PID.

        It gets SIGTERM when the supervisor dies, unless the command sets a parent-death signal itself.
        """
        command = Account(os.geteuid(), os.getegid()).command(self.service.argv, reaches=(), death_signal="TERM")
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=self.service.pass_fds,
            )
        self.ready = False
        self.started_at = time.monotonic()
        return self.process.pid

    def stop(self) -> None:
        """Send the stop signal."""
        assert self.process is not None
        # Not `Popen.send_signal`: it would reap a process that has just died, which only `reap` may.
        with suppress(ProcessLookupError):
            os.kill(self.process.pid, self.service.stop_signal)

    def reap(self) -> int | None:
        """If the process has ended, kill the rest of its group and return its status (as `Popen.returncode`); else None.

        The group is killed first: the leader's PID cannot be reused before the leader is waited for.
        """
        if self.process is None:
            return None
        ended = os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is None:
            return None
        os_processes.kill_group(self.process.pid)
        status = self.process.wait()
        self.process = None
        return status


class ServiceSupervisor:
    """Runs services, with their logs in the data directory `data`, and calls `report` on each change.

    Use it inside `listening()`. Services started by one call of `start` are stopped together, those of the last call first.
    """

    def __init__(self, data: DataDirectory, report: Report) -> None:
        self._data = data
        self._report = report
        self._batches: list[list[Child]] = []
        self._signals = 0
        self._wake, self._waker = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(self._waker, False)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Handle stop signals, and stop all services on exit."""
        previous = {number: signal.getsignal(number) for number in (*STOP_SIGNALS, signal.SIGCHLD)}
        previous_fd = signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        for number in STOP_SIGNALS:
            # A shell starts background jobs with SIGINT ignored: handle it anyway. SIGHUP ignored by nohup stays ignored.
            if number != signal.SIGHUP or previous[number] is not signal.SIG_IGN:
                signal.signal(number, self._on_signal)
        try:
            yield
        finally:
            self._stop()
            signal.set_wakeup_fd(previous_fd)
            for number, handler in previous.items():
                signal.signal(number, handler)
            os.close(self._wake)
            os.close(self._waker)

    def start(self, *services: Service) -> None:
        """Start services, without waiting for them."""
        batch = [Child(service, self._data.logs / f"{service.name}.log") for service in services]
        self._batches.append(batch)
        for child in batch:
            self._spawn(child)

    def wait_ready(self, seconds: float) -> None:
        """Wait until every service is ready.

        Raises StartFailed when one is not ready in time or ends too often, StopRequested on a signal.
        """
        deadline = time.monotonic() + seconds
        while True:
            self._tick()
            if self._signals:
                raise StopRequested
            waiting = [child for child in self._children() if not child.ready]
            if not waiting:
                return
            late = time.monotonic() > deadline
            for child in waiting:
                if late or child.failures >= STARTS_TRIED:
                    why = f"was not ready after {seconds:g} s" if late else "ends as soon as it is started"
                    raise StartFailed(f"{child.service.name} {why}. The end of {child.log}:\n{tail(child.log)}")
            self._wait(FAST_POLL_SECONDS)

    def watch(self) -> None:
        """Keep the services running until a signal asks to stop."""
        while not self._signals:
            self._tick()
            self._wait(FAST_POLL_SECONDS if any(not child.ready for child in self._children()) else SLOW_POLL_SECONDS)

    def _children(self) -> Iterator[Child]:
        for batch in self._batches:
            yield from batch

    def _tick(self) -> None:
        now = time.monotonic()
        for child in self._children():
            rotate(child.log)
            if child.process is None:
                if now >= child.start_at:
                    self._spawn(child)
            elif (status := child.reap()) is not None:
                self._ended(child, status)
            elif not child.ready:
                seconds = time.monotonic() - child.started_at
                if child.service.ready(seconds):
                    child.ready = True
                    self._report(child.service.name, Change.READY, f"after {seconds:.1f} s")
            elif child.service.stopping():
                child.stop()
            elif now - child.started_at > STEADY_SECONDS:
                child.failures = 0

    def _spawn(self, child: Child) -> None:
        given = os.environ if child.service.env is None else child.service.env
        pid = child.spawn({**given, RUN_VARIABLE: self._data.run_id})
        self._data.record(child.service.name, pid, child.service.stop_signal)

    def _ended(self, child: Child, status: int) -> None:
        self._data.forget(child.service.name)
        child.failures += 1
        child.ready = False
        pause = backoff(child.failures)
        child.start_at = time.monotonic() + pause
        self._report(child.service.name, Change.EXITED, f"{describe(status)}; again in {pause:g} s; see {child.log}")

    def _stop(self) -> None:
        for batch in reversed(self._batches):
            self._stop_together([child for child in batch if child.process is not None])

    def _stop_together(self, running: list[Child]) -> None:
        """Send stop signals to the processes; kill those that take too long, or all of them on a further signal."""
        asked_at, signals = time.monotonic(), self._signals
        for child in running:
            child.stop()
        while running:
            for child in list(running):
                assert child.process is not None
                seconds = time.monotonic() - asked_at
                killed = seconds > child.service.stop_seconds or self._signals > signals
                if killed:
                    os_processes.kill_group(child.process.pid)
                if child.reap() is not None:
                    running.remove(child)
                    self._data.forget(child.service.name)
                    change = Change.KILLED if killed else Change.STOPPED
                    self._report(child.service.name, change, f"after {seconds:.1f} s")
            if running:
                self._wait(FAST_POLL_SECONDS)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._signals += 1

    def _wait(self, seconds: float) -> None:
        """Wait for `seconds`, or until a signal, such as SIGCHLD of a child that ended."""
        readable, _, _ = select.select([self._wake], [], [], seconds)
        if readable:
            os.read(self._wake, 4096)


def describe(status: int) -> str:
    """A process's status (as `Popen.returncode`) in words."""
    return f"with code {status}" if status >= 0 else f"by {signal.Signals(-status).name}"
