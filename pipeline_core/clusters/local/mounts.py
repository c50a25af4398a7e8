"""A root directory of its own for a container.

The new root is a tmpfs into which everything at the host's root is bound, but for the paths of the mounts: these directories
are made anew in the tmpfs, and their other entries bound into them. So a mount path need not exist on the host, and nothing is
made or changed there.
"""

from __future__ import annotations

import os

from pipeline_core.clusters.local import linux
from pipeline_core.common.files import write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


ROOT_SIZE = "64m"
"""Limit of what is written to the new root itself, which is memory."""


class BindMount:
    """The directory `source` of the host, or the file, seen at `target` in the container."""

    __slots__ = ("file", "read_only", "source", "target")

    def __init__(self, source: str, target: str, *, read_only: bool = False, file: bool = False) -> None:
        self.source = source
        self.target = target
        self.read_only = read_only
        self.file = file

    def covers(self, path: str) -> bool:
        """Whether `path` is in it, or it is in `path`."""
        return f"{self.target}/".startswith(f"{path}/") or f"{path}/".startswith(f"{self.target}/")


class _Node:
    """One directory on the way to a mount, or a mount, with those below it."""

    __slots__ = ("children", "mount")

    def __init__(self) -> None:
        self.mount: BindMount | None = None
        self.children: dict[str, _Node] = {}


def own_namespace() -> None:
    """Give this process its mount namespace, by way of a user namespace when it is not root. Raises OSError."""
    uid, gid = os.geteuid(), os.getegid()
    if uid == 0:
        linux.unshare(linux.CLONE_NEWNS)
    else:
        linux.unshare(linux.CLONE_NEWUSER | linux.CLONE_NEWNS)
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{uid} {uid} 1")
        _write("/proc/self/gid_map", f"{gid} {gid} 1")
    linux.mount("none", "/", None, linux.MS_REC | linux.MS_PRIVATE)


def enter(root: str, mounts: Sequence[BindMount]) -> None:
    """Make `root`, an empty directory, this process's root, with the mounts in it. Raises OSError."""
    own_namespace()
    linux.mount("tmpfs", root, "tmpfs", 0, f"mode=755,size={ROOT_SIZE}")
    linux.mount("none", root, None, linux.MS_UNBINDABLE)
    _mirror("/", root, _tree(mounts))
    os.chdir(root)
    linux.pivot_root(".", ".")
    linux.unmount(".", linux.MNT_DETACH)
    os.chdir("/")


def _tree(mounts: Sequence[BindMount]) -> _Node:
    tree = _Node()
    for mount in mounts:
        node = tree
        # A file is put where it is named, whatever the host has there.
        place = mount.target if mount.file else os.path.realpath(mount.target)
        for name in place.strip("/").split("/"):
            node = node.children.setdefault(name, _Node())
        node.mount = mount
    return tree


def _mirror(host: str, new: str, node: _Node) -> None:
    """Fill the fresh directory `new` with what `host`, if it is there, has, and with the mounts below the node."""
    if os.path.isdir(host):
        with os.scandir(host) as entries:
            for entry in entries:
                if entry.name not in node.children:
                    _bind_entry(entry, os.path.join(new, entry.name))
    for name, child in node.children.items():
        path = os.path.join(new, name)
        if child.mount is not None and child.mount.file:
            _bind_file(child.mount.source, path)
            continue
        os.mkdir(path)
        if child.mount is None:
            _mirror(os.path.join(host, name), path, child)
        else:
            _place(path, child)


def _place(path: str, node: _Node) -> None:
    """Mount at a directory that is there, then what is mounted inside, before it may become read-only."""
    if node.mount is not None:
        linux.mount(node.mount.source, path, None, linux.MS_BIND | linux.MS_REC)
    for name, child in node.children.items():
        inner = os.path.join(path, name)
        os.makedirs(inner, exist_ok=True)
        _place(inner, child)
    if node.mount is not None and node.mount.read_only:
        # A user namespace may not drop flags that the host's mount has.
        kept = os.statvfs(path).f_flag & (linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)
        linux.mount("none", path, None, linux.MS_REMOUNT | linux.MS_BIND | linux.MS_RDONLY | kept)


def _bind_entry(entry: os.DirEntry[str], copy: str) -> None:
    if entry.is_symlink():
        os.symlink(os.readlink(entry.path), copy)
        return
    if entry.is_dir():
        os.mkdir(copy)
        linux.mount(entry.path, copy, None, linux.MS_BIND | linux.MS_REC)
    else:
        _bind_file(entry.path, copy)


def _bind_file(source: str, copy: str) -> None:
    os.close(os.open(copy, os.O_CREAT | os.O_WRONLY, 0o600))
    linux.mount(source, copy, None, linux.MS_BIND | linux.MS_REC)


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY)
    try:
        write_all(fd, text.encode())
    finally:
        os.close(fd)
