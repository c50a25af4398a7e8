"""The processes of a container: their environment, starting the first one, and ending all that descend from it.

Processes are found in /proc. psutil would cost the supervisor and each keeper 2 MB and 50 ms more at their start, and lists
a process's children no faster.
"""

from __future__ import annotations

import contextlib
import os
import signal

from pipeline_core.clusters.local import linux, mounts
from pipeline_core.common.files import write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    EnvVariable = tuple[str, str | dict[str, str]]

NOT_EXECUTABLE, NOT_FOUND = 126, 127


class StartError(Exception):
    """The command could not be executed; `code` is the exit code that a shell would give."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace `$(NAME)` by the variable's value; an unknown name stays as it is, and `$$` is a single `$`.

    https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/
    """
    parts = []
    position = 0
    while (dollar := text.find("$", position)) >= 0:
        parts.append(text[position:dollar])
        following = text[dollar + 1 : dollar + 2]
        end = text.find(")", dollar + 2) if following == "(" else -1
        if following == "$":
            parts.append("$")
            position = dollar + 2
        elif end >= 0:
            name = text[dollar + 2 : end]
            parts.append(variables.get(name, text[dollar : end + 1]))
            position = end + 1
        else:
            parts.append("$")
            position = dollar + 1
    parts.append(text[position:])
    return "".join(parts)


def compose(
    taskset: Mapping[str, str], base: Mapping[str, str], own: Iterable[EnvVariable], fields: Mapping[str, str]
) -> dict[str, str]:
    """The environment of a container: `base`, which every process needs, the variables of the TaskSet, the container's own.

    Later ones replace earlier ones of the same name. A variable of the container is a text, in which `$(NAME)` refers to
    those before it, or `{"field": path}`, the value of which is in `fields`.
    """
    variables = {**base, **taskset}
    for name, value in own:
        variables[name] = expand(value, variables) if isinstance(value, str) else fields[value["field"]]
    return variables


def taskset_variables(namespace: str, name: str, role: str, index: int, sizes: Mapping[str, int]) -> dict[str, str]:
    """The variables that tell a container its place in the TaskSet; `sizes` has the number of replicas of each role."""
    variables = {
        "TASKSET_NAMESPACE": namespace,
        "TASKSET_NAME": name,
        "TASKROLE_NAME": role,
        "TASKROLE_REPLICA_INDEX": str(index),
    }
    for other, size in sizes.items():
        variables[f"TASKROLE_HOSTS_{other.upper().replace('-', '_')}"] = ",".join(["127.0.0.1"] * size)
    return variables


def start(
    argv: Sequence[str],
    environment: Mapping[str, str],
    directory: str,
    output: int,
    root: str,
    bound: Sequence[mounts.BindMount],
    groups: Sequence[str],
) -> int:
    """Start a process in its own session, its output going to `output`, and return its pid once it has been executed.

    It dies with the caller. With mounts, `root` becomes its root directory. `groups` are the `cgroup.procs` of the
    control groups that it is to be in. Raises StartError.
    """
    reading, writing = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            for group in groups:
                _join(group)
            if bound:
                _enter(root, bound)
            linux.die_with_parent(signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(NOT_EXECUTABLE)
            _clean_signals()
            os.umask(0o022)
            os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.chdir(directory)
            os.execvpe(argv[0], list(argv), environment)
        except (OSError, ValueError, StartError) as error:
            status = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
            problem = str(error) if isinstance(error, StartError) else f"cannot execute {argv[0]!r}: {error}"
            write_all(writing, f"{status} {problem}".encode())
        finally:
            os._exit(NOT_FOUND)
    os.close(writing)
    with open(reading, encoding="utf-8", errors="replace") as pipe:
        message = pipe.read()
    if message:
        os.waitpid(pid, 0)
        code, _, text = message.partition(" ")
        raise StartError(int(code), text)
    return pid


def exit_code(status: int) -> int:
    """The exit code of a wait status, as shells give it: 128+n for a process that was ended by signal n."""
    code = os.waitstatus_to_exitcode(status)
    return 128 - code if code < 0 else code


def signal_group(pid: int, number: int) -> None:
    """Signal the process group of a container's first process."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def signal_others(number: int, groups: Container[int]) -> None:
    """Signal all descendants of this process that are in none of these process groups."""
    below: dict[int, list[tuple[int, int]]] = {}
    for pid, parent, group in _processes():
        below.setdefault(parent, []).append((pid, group))
    parents = [os.getpid()]
    while parents:
        for pid, group in below.get(parents.pop(), ()):
            parents.append(pid)
            if group not in groups:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)


def end_children(spared: frozenset[int] = frozenset()) -> None:
    """Kill and reap all children of this process but those in `spared`.

    The descendants of a subreaper become its children as their parents die, so this goes on until none is left.
    """
    while has_children() and (found := [pid for pid in children() if pid not in spared]):
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        for pid in found:
            os.waitpid(pid, 0)


def has_children() -> bool:
    """Whether this process has children, also ended ones that were not reaped yet."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def children() -> list[int]:
    """The pids of this process's children, also of ended ones that were not reaped yet."""
    me = os.getpid()
    return [pid for pid, parent, _ in _processes() if parent == me]


def _processes() -> Iterator[tuple[int, int, int]]:
    """The pid, parent and process group of every process."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            yield int(name), int(fields[1]), int(fields[2])


def _clean_signals() -> None:
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if number not in (signal.SIGKILL, signal.SIGSTOP) and number < 32:
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _join(group: str) -> None:
    try:
        with open(group, "w", encoding="ascii") as file:
            file.write("0")
    except OSError as error:
        raise StartError(NOT_EXECUTABLE, f"cannot join the control group: {error}") from error


def _enter(root: str, bound: Sequence[mounts.BindMount]) -> None:
    try:
        mounts.enter(root, bound)
    except OSError as error:
        raise StartError(NOT_EXECUTABLE, f"cannot mount the volumes: {error}") from error
