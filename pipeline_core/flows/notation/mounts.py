"""Notation of mounts: `name(kind):/path`, several separated by `,` or `;`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from posixpath import normpath
from typing import Any

from pipeline_core.flows.notation.errors import NotationError
from pipeline_core.flows.notation.names import check_user
from pipeline_core.flows.notation.resources import as_text, read_memory
from pipeline_core.flows.notation.site import Site
from pipeline_core.validation.texts import shown

_ENTRY = re.compile(r"([^()]*)\(([^()]*)\)\s*:(.*)", re.DOTALL)
_OBJECT = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")
_SEPARATOR = re.compile(r"[,;\n]")


@dataclass(frozen=True, kw_only=True, slots=True)
class VolumeMount:
    """A volume, as a pod has it but without its name, and the path at which the container sees it."""

    volume: Mapping[str, Any]
    path: str
    sub_path: str = ""


def read_mounts(value: object, creator: str, site: Site) -> tuple[VolumeMount, ...]:
    """The mounts of a task of that creator's flow. Raises NotationError."""
    mounts = tuple(_mount(entry, creator, site) for entry in map(str.strip, _SEPARATOR.split(as_text(value))) if entry)
    paths = [mount.path for mount in mounts]
    if twice := [path for index, path in enumerate(paths) if path in paths[:index]]:
        raise NotationError(f"mounts two things at {twice[0]}")
    return mounts


def merge(own: Iterable[VolumeMount], others: Iterable[VolumeMount]) -> tuple[VolumeMount, ...]:
    """A task's own mounts, then those of its template at other paths."""
    kept = tuple(own)
    taken = {mount.path for mount in kept}
    return kept + tuple(mount for mount in others if mount.path not in taken)


def pod_fields(mounts: Iterable[VolumeMount]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """A pod's `volumes` and a container's `volumeMounts`; equal volumes become one."""
    volumes: list[dict[str, Any]] = []
    mounted: list[dict[str, Any]] = []
    for mount in mounts:
        equal = [volume["name"] for volume in volumes if {**volume, "name": ""} == {**mount.volume, "name": ""}]
        name = equal[0] if equal else f"volume-{len(volumes)}"
        if not equal:
            volumes.append({"name": name, **mount.volume})
        mounted.append(
            {"name": name, "mountPath": mount.path} | ({"subPath": mount.sub_path} if mount.sub_path else {})
        )
    return volumes, mounted


_SYSTEM = ("proc", "sys", "dev")


def _mount(entry: str, creator: str, site: Site) -> VolumeMount:
    match = _ENTRY.fullmatch(entry)
    if not match:
        raise NotationError(
            f"must be `name(kind):/path`, several separated by `,` or `;`; {shown(entry)} is not of that form"
        )
    source, kind, path = (part.strip() for part in match.groups())
    if kind not in VOLUME_KINDS:
        raise NotationError(f"has {shown(entry)}; there is no kind {shown(kind)}, but {', '.join(VOLUME_KINDS)}")
    try:
        where = _absolute(path, "the path to mount at")
        if where == "/" or (where.split("/")[1] in _SYSTEM and where != "/dev/shm"):
            raise NotationError(f"{where} is the system's own, and nothing is mounted there")
        volume = VOLUME_KINDS[kind](source, site)
        if kind != "pvc":
            return VolumeMount(volume=volume, path=where)
        user = _user(creator)
        return VolumeMount(volume=volume, path=f"{where.rstrip('/')}/{user}", sub_path=user)
    except NotationError as error:
        raise NotationError(f"has {shown(entry)}: {error}") from None


def _user(creator: str) -> str:
    try:
        return check_user(creator)
    except NotationError as error:
        raise NotationError(f"the name of the flow's creator, which is the directory's, {error}") from None


def _absolute(path: str, whose: str) -> str:
    if not path.startswith("/") or ".." in path.split("/") or ":" in path or "\0" in path:
        raise NotationError(f"{whose} must be absolute, without `..` and `:`, not {shown(path)}")
    return "/" + normpath(path).lstrip("/")


def _named(source: str) -> str:
    if not _OBJECT.fullmatch(source):
        raise NotationError(
            f"{shown(source)} is no name of a Kubernetes object (lower-case letters, digits, `-` and `.`)"
        )
    return source


def _claim(source: str, site: Site) -> dict[str, Any]:
    return {"persistentVolumeClaim": {"claimName": _named(source)}}


def _host_path(source: str, site: Site) -> dict[str, Any]:
    path = _absolute(source, "the directory of the node")
    roots = [normpath(root) for root in site.host_paths]
    if not any(path == root or path.startswith(root.rstrip("/") + "/") for root in roots):
        allowed = f"only what lies in {', '.join(roots)} may be" if roots else "nothing of the nodes may be"
        raise NotationError(f"{path} may not be mounted; {allowed} (PIPELINE_HOST_PATHS)")
    return {"hostPath": {"path": path}}


def _nfs(source: str, site: Site) -> dict[str, Any]:
    server, slash, directory = source.partition("/")
    if not slash or not _HOST.fullmatch(server):
        raise NotationError(f"{shown(source)} is no server and directory, as `10.0.0.9/export/data`")
    return {"nfs": {"server": server, "path": _absolute(f"/{directory}", "the server's directory")}}


def _config_map(source: str, site: Site) -> dict[str, Any]:
    return {"configMap": {"name": _named(source)}}


def _secret(source: str, site: Site) -> dict[str, Any]:
    if source not in site.secrets:
        raise NotationError(f"the secret {shown(source)} may not be mounted (PIPELINE_MOUNT_SECRETS does not name it)")
    return {"secret": {"secretName": _named(source)}}


def _memory(source: str, site: Site) -> dict[str, Any]:
    size = None if "~" in source else read_memory(source)
    if size is None:
        raise NotationError(f"the size must be a whole number with G, M, Gi or Mi, not {shown(source)}")
    return {"emptyDir": {"medium": "Memory", "sizeLimit": size.limit}}


VOLUME_KINDS: Mapping[str, Callable[[str, Site], dict[str, Any]]] = {
    "pvc": _claim,
    "pvc-share": _claim,
    "storage": _claim,
    "hostpath": _host_path,
    "nfs": _nfs,
    "configmap": _config_map,
    "secret": _secret,
    "memory": _memory,
}
"""The kinds of mounts, each with the function that makes its volume."""
