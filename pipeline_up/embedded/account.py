"""The account that an embedded server runs as.

PostgreSQL refuses to run as root, so under root both servers run as an existing system account; none is created.
"""

from __future__ import annotations

import os
import pwd
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline_core.errors import ConfigurationError

CANDIDATES = ("postgres", "nobody")
# The account may lack access to a directory above the data or the wheel (/root, or a pytest directory): then it keeps the
# capability CAP_DAC_OVERRIDE. no_setuid_fixup makes access(2), which PostgreSQL calls, respect it.
THROUGH_CLOSED_DIRECTORIES = (
    "--inh-caps=-all,+dac_override",
    "--ambient-caps=-all,+dac_override",
    "--securebits=+no_setuid_fixup",
)


@dataclass(frozen=True, slots=True)
class Account:
    """The user and group that a server runs as."""

    uid: int
    gid: int

    @property
    def current(self) -> bool:
        return self.uid == os.geteuid()

    def own(self, path: Path, mode: int) -> None:
        """Make this account the path's owner, and set its mode."""
        if not self.current:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)
        path.chmod(mode)

    def command(self, argv: Sequence[str], *, reaches: Iterable[Path], death_signal: str = "clear") -> list[str]:
        """`argv` as this account runs it; it ends with `death_signal` (`INT`, `TERM`) when its parent dies.

        `reaches` are the files and directories that it must be able to access.
        """
        setpriv = shutil.which("setpriv")
        if setpriv is None:
            if self.current:
                return list(argv)
            raise ConfigurationError(
                "root needs the program setpriv (of util-linux) to start PostgreSQL as another account: install it, or "
                "run as a normal user"
            )
        options = [f"--pdeathsig={death_signal}"]
        if not self.current:
            options += [f"--reuid={self.uid}", f"--regid={self.gid}", "--clear-groups"]
            if not all(open_to_all(path) for path in reaches):
                options += THROUGH_CLOSED_DIRECTORIES
        return [setpriv, *options, "--", *argv]


def account_for(directory: Path) -> Account:
    """The caller's own account; for root, the owner of `directory` unless that is root, else `postgres`, else `nobody`."""
    if os.geteuid() != 0:
        return Account(os.geteuid(), os.getegid())
    if directory.exists():
        owner = directory.stat()
        if owner.st_uid != 0:
            return Account(owner.st_uid, owner.st_gid)
    for name in CANDIDATES:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_uid, entry.pw_gid)
    raise ConfigurationError(
        f"PostgreSQL does not run as root, and there is no account {' or '.join(CANDIDATES)} to run it as: run as a "
        "normal user"
    )


def open_to_all(path: Path) -> bool:
    """Whether everyone may traverse every directory above the path."""
    return all(parent.stat().st_mode & 0o001 for parent in path.resolve().parents)
