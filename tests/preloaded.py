"""Processes of the service that are forked from one that has imported their modules already.

To import them takes a process more than a second of CPU time, and tests start thousands. Such a process is as real as one
that a command starts: it has a PID, a session, an environment, arguments and files of its own, also in its command line in /proc,
and runs the same module as `__main__`.

`python -m tests.preloaded NUMBER` is that process. It serves requests from the socket with this number, one at a time, until
the socket is closed, and forks before anything reads the environment or starts a thread.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Protocol

MODULES = ("workers", "gunicorn", "tests.bench.row")
"""What is run by `python -m MODULE …`."""

# Room for the command line of a process that is forked, in the memory of the one that it is forked from.
ROOM = "." * 4096

REQUEST_BYTES = 2**20
# Above all numbers that a process has to have its files under.
SPARE_NUMBER = 200
# The interpreter reads these when it starts.
INTERPRETER = ("PYTHON", "LD_")
# See prctl(2).
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


class Process(Protocol):
    """What `subprocess.Popen` and `Forked` have in common."""

    @property
    def pid(self) -> int: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, sig: int) -> None: ...
    def terminate(self) -> None: ...


def start(argv: Sequence[str], env: Mapping[str, str], log: IO[bytes], pass_fds: Sequence[int] = ()) -> Process:
    """Start a process in a session of its own, whose output is appended to `log`: by a fork where it runs one of MODULES, and
    by its command otherwise."""
    if list(argv[:2]) == [sys.executable, "-m"] and argv[2] in MODULES:
        origin = _preloaded()
        if _interpreter(env) == _interpreter(origin.environment):
            return origin.start(argv[2:], env, log, pass_fds)
    return subprocess.Popen(
        argv, env=env, pass_fds=pass_fds, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
    )


class Forked:
    """A forked process, as `subprocess.Popen` shows one: it stays a zombie until its end is noticed by `poll` or `wait`."""

    def __init__(self, pid: int, origin: Preloaded) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._origin = origin
        self._pidfd = os.pidfd_open(pid)
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        """Its exit code, or minus the signal that ended it; None while it runs."""
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end. Returns what `poll` returns; raises subprocess.TimeoutExpired."""
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
        return code

    def send_signal(self, sig: int) -> None:
        """Send it a signal, unless its end was noticed."""
        if self.poll() is None:
            signal.pidfd_send_signal(self._pidfd, sig)

    def terminate(self) -> None:
        """Send it SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def _ended(self, timeout: float | None) -> int | None:
        if self.returncode is None:
            poll = select.poll()
            poll.register(self._pidfd, select.POLLIN)
            if poll.poll(None if timeout is None else timeout * 1000):
                with self._lock:
                    if self.returncode is None:
                        self.returncode = self._origin.reap(self.pid)
        return self.returncode

    def __del__(self) -> None:
        os.close(self._pidfd)


class Origin:
    """A process that others are forked from, at the other end of a socket."""

    def __init__(self, connection: socket.socket) -> None:
        self._lock = threading.Lock()
        self._socket = connection
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, REQUEST_BYTES)

    def fork(self, words: Sequence[str], env: Mapping[str, str], log: IO[bytes], pass_fds: Sequence[int]) -> int:
        """The PID of a new process that runs the module `words[0]` with the arguments after it."""
        request = {"words": list(words), "env": dict(env), "cwd": str(Path.cwd()), "numbers": list(pass_fds)}
        return self._ask(request, log.fileno(), *pass_fds)

    def _ask(self, request: Mapping[str, Any], *files: int) -> int:
        with self._lock:
            socket.send_fds(self._socket, [json.dumps(request).encode()], files)
            answer = self._socket.recv(REQUEST_BYTES)
        assert answer, "the process that others are forked from has ended: see its output"
        return int(answer)


class Preloaded(Origin):
    """The process that the others are forked from, which is their parent."""

    def __init__(self) -> None:
        # None of the service's variables: each process is given its own.
        own = {name: value for name, value in os.environ.items() if not name.startswith("PIPELINE_")}
        self.environment = {**own, "PYTHONUNBUFFERED": "1"}
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        super().__init__(ours)
        with theirs:
            number = theirs.fileno()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.preloaded", str(number), ROOM],
                cwd=Path(__file__).parents[1],
                env=self.environment,
                pass_fds=(number,),
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def start(self, words: Sequence[str], env: Mapping[str, str], log: IO[bytes], pass_fds: Sequence[int]) -> Forked:
        """A new process that runs the module `words[0]` with the arguments after it."""
        return Forked(self.fork(words, env, log, pass_fds), self)

    def reap(self, pid: int) -> int:
        """The exit code of a process that has ended, or minus the signal that ended it."""
        return self._ask({"reap": pid})


def origin_of_children() -> Origin:
    """Fork a process that others are forked from, of all that this one has imported so far: they become children of this one,
    and get SIGTERM when it ends. This one must have no thread yet, and is left by an exception (SystemExit) in each of them."""
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork():
        theirs.close()
        return Origin(ours)
    ours.close()
    found = _serve(theirs, _fork_orphan)
    if found:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        _become(*found)
    sys.exit()


_LOCK = threading.Lock()
_started: dict[int, Preloaded] = {}


def _preloaded() -> Preloaded:
    """That of this process, started by the first call."""
    with _LOCK:
        if os.getpid() not in _started:
            _started[os.getpid()] = Preloaded()
        return _started[os.getpid()]


def _interpreter(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(INTERPRETER)}


# What follows runs in the process that the others are forked from.


def main(number: int) -> None:
    """Fork as requested. Each child returns from the loop, becomes what was asked for, and ends as any program does."""
    _import_all()
    if found := _serve(socket.socket(fileno=number), os.fork):
        _become(*found)


def _serve(requests: socket.socket, fork: Callable[[], int]) -> tuple[dict[str, Any], list[int]] | None:
    """Fork as requested, until nobody is left who asks. In each child: the request, and its files."""
    assert threading.active_count() == 1, "a thread would not exist in a forked process"
    with requests:
        while True:
            data, files, _, _ = socket.recv_fds(requests, REQUEST_BYTES, SPARE_NUMBER)
            if not data:
                return None
            request = json.loads(data)
            if pid := request.get("reap"):
                answer = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            elif (answer := fork()) == 0:
                return request, files
            for file in files:
                os.close(file)
            requests.send(str(answer).encode())


def _fork_orphan() -> int:
    """As os.fork, but the process becomes a child of the nearest one above that takes orphans; in it, this is so already."""
    (reading, writing), (waiting, going) = os.pipe(), os.pipe()
    if (between := os.fork()) == 0:
        if pid := os.fork():
            os.write(writing, str(pid).encode())
            os._exit(0)
        os.close(going)
        os.read(waiting, 1)
    else:
        answer = int(os.read(reading, 20))
        os.waitpid(between, 0)
        os.write(going, b"x")
        os.close(going)
    for file in (reading, writing, waiting):
        os.close(file)
    return answer if between else 0


def _import_all() -> None:
    """Import what the processes import, and make nothing of it: all that is made depends on the environment."""
    from pipeline_core.common.imports import lean_imports
    from workers.names import queues, task_modules

    with lean_imports():
        for name in (
            *("workers.background", "workers.watch", "workers.alone", *task_modules(queues())),
            *("pipeline_core.clusters.local.driver", "pipeline_core.clusters.null"),
            *(
                "celery.app.amqp",
                "celery.app.control",
                "celery.app.events",
                "celery.app.log",
                "celery.events.dispatcher",
            ),
            *("celery.apps.beat", "celery.apps.worker", "celery.concurrency.prefork", "celery.concurrency.thread"),
            *("celery.worker.autoscale", "celery.worker.components", "celery.worker.consumer"),
            *("gunicorn.app.wsgiapp", "gunicorn.arbiter", "api.server.worker", "api.app", "psycopg2.extras"),
        ):
            import_module(name)


def _become(request: Mapping[str, Any], files: Sequence[int]) -> None:
    from pipeline_core.common import failpoints
    from pipeline_core.operations import status

    os.setsid()
    _show(sys.executable, "-m", *request["words"])
    spare = [fcntl.fcntl(file, fcntl.F_DUPFD, SPARE_NUMBER) for file in files]
    for file in files:
        os.close(file)
    for file, numbers in zip(spare, ((1, 2), *((number,) for number in request["numbers"])), strict=True):
        for number in numbers:
            os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    sys.path[0] = request["cwd"]
    # What else these modules do when they are imported.
    failpoints.configure(os.environ)
    status._STARTED = time.monotonic()
    module, *arguments = request["words"]
    sys.argv[1:] = arguments
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _show(*words: str) -> None:
    """Make these the command line in /proc, as far as there is room for it: see proc_pid_stat(5) and proc_pid_cmdline(5)."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    begin, end = int(fields[45]), int(fields[46])
    room = end - begin - 1
    text = b"\0".join(map(os.fsencode, words))[:room].ljust(room, b"\0")
    ctypes.memmove(begin, text + b"\0", room + 1)


if __name__ == "__main__":
    main(int(sys.argv[1]))
