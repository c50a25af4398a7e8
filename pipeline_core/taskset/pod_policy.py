"""Checks pod templates against the baseline level of the Pod Security Standards.

The controls are those of https://kubernetes.io/docs/concepts/security/pod-security-standards/, except that directories may
be allowed as host paths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from posixpath import normpath
from typing import Any

from pipeline_core.errors import WrongParameter
from pipeline_core.taskset.values import FieldError, Json, at, collect_errors, frozen, identified, shown
from pipeline_core.validation.errors import Path

CAPABILITIES = frozenset(
    {
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    }
)
SYSCTLS = frozenset(
    {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.tcp_wmem",
    }
)
SELINUX_TYPES = frozenset({"container_t", "container_init_t", "container_kvm_t", "container_engine_t"})
PROFILES = frozenset({"RuntimeDefault", "Localhost"})
_HANDLERS: tuple[tuple[str, ...], ...] = (
    ("livenessProbe",),
    ("readinessProbe",),
    ("startupProbe",),
    ("lifecycle", "postStart"),
    ("lifecycle", "preStop"),
)
APPARMOR_ANNOTATION = "container.apparmor.security.beta.kubernetes.io/"


class PodPolicyError(WrongParameter):
    """A pod violates the pod policy."""


@dataclass(frozen=True, slots=True)
class PodPolicy:
    """The policy for pods: `baseline`, or none; `host_paths` are the directories in which hostPath volumes may be."""

    baseline: bool = True
    host_paths: tuple[str, ...] = ()


BASELINE = PodPolicy()


def check_pods(taskset: Mapping[str, Any], policy: PodPolicy) -> None:
    """Check every pod template of a checked TaskSet. Raises PodPolicyError, with paths."""
    if policy.baseline:
        _refuse(_all(taskset, policy))


def check_added(base: Mapping[str, Any], answer: Mapping[str, Any], policy: PodPolicy) -> None:
    """Check what `answer`, which only adds to `base`, has added. Raises PodPolicyError, with paths."""
    if not policy.baseline:
        return
    before = {_fingerprint(base, path) for path, _ in _all(base, policy)}
    _refuse((path, text) for path, text in _all(answer, policy) if _fingerprint(answer, path) not in before)


def violations(template: Mapping[str, Any], policy: PodPolicy) -> Iterator[FieldError]:
    """The violations of the baseline in a pod template, with what would be right. Paths start at the template."""
    pod = template["spec"]
    for key in ("hostNetwork", "hostPID", "hostIPC"):
        yield from _only(pod, key, _unset, "false, or to leave it out", ("spec",))
    yield from _annotations(template)
    yield from _security(pod, ("spec",))
    for index, sysctl in _elements(_inner(pod, "securityContext"), "sysctls"):
        where = ("spec", "securityContext", "sysctls", index)
        yield from _only(sysctl, "name", _among(SYSCTLS), f"one of {', '.join(sorted(SYSCTLS))}", where)
    for index, volume in _elements(pod, "volumes"):
        yield from _host_path(volume, policy, ("spec", "volumes", index))
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in _elements(pod, kind):
            yield from _container(container, ("spec", kind, index))


def _all(taskset: Mapping[str, Any], policy: PodPolicy) -> Iterator[FieldError]:
    for index, role in enumerate(taskset["spec"]["roles"]):
        for path, text in violations(role["template"], policy):
            yield ("spec", "roles", index, "template", *path), text


def _fingerprint(taskset: Mapping[str, Any], path: Path) -> Any:
    return identified(taskset, path), frozen(at(taskset, path))


def _refuse(found: Iterable[FieldError]) -> None:
    if errors := collect_errors(found):
        raise PodPolicyError(
            f"The pod policy (baseline) does not allow this: {errors.sentence(' ')}", errors=errors.by_path
        )


def _container(container: Json, path: Path) -> Iterator[FieldError]:
    yield from _security(container, path)
    context, where = _inner(container, "securityContext"), (*path, "securityContext")
    yield from _only(context, "privileged", _unset, "false, or to leave it out", where)
    yield from _only(context, "procMount", _among({"Default"}), "`Default`, or to leave it out", where)
    capabilities, added = _inner(context, "capabilities"), (*where, "capabilities", "add")
    for index, capability in _elements(capabilities, "add"):
        if not isinstance(capability, str) or capability not in CAPABILITIES:
            yield (*added, index), f"is {shown(capability)}; right would be: one of {', '.join(sorted(CAPABILITIES))}"
    for index, port in _elements(container, "ports"):
        yield from _only(port, "hostPort", _unset, "0, or to leave it out", (*path, "ports", index))
    yield from _host_calls(container, path)


def _host_calls(container: Json, path: Path) -> Iterator[FieldError]:
    """Violations in probes and lifecycle handlers, which may only call the pod itself."""
    for keys in _HANDLERS:
        for kind in ("httpGet", "tcpSocket"):
            yield from _only(_inner(container, *keys, kind), "host", _unset, "to leave it out", (*path, *keys, kind))


def _security(holder: Json, path: Path) -> Iterator[FieldError]:
    """Violations of the controls that the security contexts of pods and of containers share."""
    context, where = _inner(holder, "securityContext"), (*path, "securityContext")
    windows = _inner(context, "windowsOptions")
    yield from _only(windows, "hostProcess", _unset, "false, or to leave it out", (*where, "windowsOptions"))
    selinux, there = _inner(context, "seLinuxOptions"), (*where, "seLinuxOptions")
    yield from _only(selinux, "type", _among(SELINUX_TYPES), f"one of {', '.join(sorted(SELINUX_TYPES))}", there)
    for key in ("user", "role"):
        yield from _only(selinux, key, _unset, "to leave it out", there)
    for profile in ("seccompProfile", "appArmorProfile"):
        right = "`RuntimeDefault` or `Localhost`, or to leave it out"
        yield from _only(_inner(context, profile), "type", _among(PROFILES), right, (*where, profile))


def _annotations(template: Json) -> Iterator[FieldError]:
    for key, value in _inner(template, "metadata", "annotations").items():
        allowed = isinstance(value, str) and (value in ("", "runtime/default") or value.startswith("localhost/"))
        if key.startswith(APPARMOR_ANNOTATION) and not allowed:
            right = "`runtime/default` or `localhost/…`"
            yield ("metadata", "annotations", key), f"is {shown(value)}; right would be: {right}"


def _host_path(volume: Json, policy: PodPolicy, path: Path) -> Iterator[FieldError]:
    if not isinstance(volume, dict) or volume.get("hostPath") is None:
        return
    host_path = _inner(volume, "hostPath")
    wanted = host_path.get("path")
    roots = [normpath(root) for root in policy.host_paths]
    if isinstance(wanted, str) and ".." not in wanted.split("/"):
        place = normpath(wanted)
        if any(place == root or place.startswith(root.rstrip("/") + "/") for root in roots):
            return
    right = f"a path in {' or '.join(roots)}" if roots else "another kind of volume: no host path is allowed here"
    at_fault: Path = ("hostPath", "path") if "path" in host_path else ("hostPath",)
    yield (*path, *at_fault), f"is the host's {shown(wanted)}; right would be: {right}"


def _only(holder: Json, key: str, allowed: Callable[[Json], bool], right: str, path: Path) -> Iterator[FieldError]:
    value = holder.get(key) if isinstance(holder, dict) else None
    if value is not None and not allowed(value):
        yield (*path, key), f"is {shown(value)}; right would be: {right}"


def _unset(value: Json) -> bool:
    return value is False or value in (0, "")


def _among(names: frozenset[str] | set[str]) -> Callable[[Json], bool]:
    return lambda value: isinstance(value, str) and (not value or value in names)


def _inner(value: Json, *keys: str) -> dict[str, Json]:
    """The object at `keys`, an empty one when there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def _elements(holder: Json, key: str) -> Iterator[tuple[int, Json]]:
    value = holder.get(key) if isinstance(holder, dict) else None
    return iter(enumerate(value)) if isinstance(value, list) else iter(())
