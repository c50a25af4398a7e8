"""All settings: read once, from the environment, and documented only here.

Each field of `Settings` is one variable: `PIPELINE_` and the field's name in capitals. Settings that belong together are a
group: a class of their own, which `Settings` inherits. `docs/configuration.md` is generated from this module.
"""

from __future__ import annotations

import base64
import ipaddress
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from environs import Env, EnvError

from pipeline_core.errors import ConfigurationError
from pipeline_core.runtime import part

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Pairs = tuple[tuple[str, str], ...]
KEY_BYTES = 32
NAMESPACE = re.compile("[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
Parser = Callable[[Env, str], Any]


def _networks(env: Env, name: str) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(word) for word in _words(env, name))


def _words(env: Env, name: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in env.str(name).split(",") if word.strip())


def _namespaces(env: Env, name: str) -> tuple[str, ...]:
    names = _words(env, name)
    for word in names:
        if not NAMESPACE.fullmatch(word):
            raise EnvError(f'"{word}" is no name of a Kubernetes namespace: up to 63 of a-z, 0-9 and -')
    return names


def _pairs(env: Env, name: str) -> Pairs:
    try:
        table = json.loads(env.str(name))
    except ValueError as error:
        raise EnvError(f"is not JSON: {error}") from None
    if not isinstance(table, dict) or not all(isinstance(value, str | int) and value != "" for value in table.values()):
        raise EnvError('must be a JSON object of names, as {"gpu": "nvidia.com/gpu"}')
    return tuple((key, str(value)) for key, value in table.items())


def _ports(env: Env, name: str) -> str:
    text = str(env.str(name))
    match = re.fullmatch(r"(\d{1,5})-(\d{1,5})", text, re.ASCII)
    if not match or not 1 <= int(match[1]) <= int(match[2]) <= 65535:
        raise EnvError(f'"{text}" is no range of ports, as 20000-29999')
    return text


def _path(env: Env, name: str) -> Path:
    return Path(env.str(name)).expanduser()


def _keys(env: Env, name: str) -> str:
    keys = _words(env, name)
    for word in keys:
        try:
            fits = len(base64.urlsafe_b64decode(word)) == KEY_BYTES
        except ValueError:
            fits = False
        if not fits:
            raise EnvError(f"must be keys of {KEY_BYTES} bytes as URL-safe base64, separated by commas")
    return ",".join(keys)


def _integer(env: Env, name: str) -> int:
    return int(env.int(name))


def _number(env: Env, name: str) -> float:
    return float(env.float(name))


def _boolean(env: Env, name: str) -> bool:
    return bool(env.bool(name))


def _named(form: str) -> Parser:
    """A text that is meant as what `form` says."""

    def parse(env: Env, name: str) -> str:
        return str(env.str(name))

    parse.__doc__ = form
    return parse


def _url(*schemes: str) -> Parser:
    """A URL with one of these schemes. It may hold a password, so errors do not show it."""
    begins = " or ".join(f"`{scheme}:`" for scheme in schemes)

    def parse(env: Env, name: str) -> str:
        text = str(env.str(name))
        if urlsplit(text).scheme not in schemes:
            raise EnvError(f"is no URL that begins with {begins}")
        return text

    parse.__doc__ = f"a URL that begins with {begins}"
    return parse


def _choice(*choices: str) -> Parser:
    def parse(env: Env, name: str) -> str:
        value = str(env.str(name))
        if value not in choices:
            raise EnvError(f'"{value}" is not one of {", ".join(choices)}')
        return value

    parse.__doc__ = " or ".join(f"`{choice}`" for choice in choices)
    return parse


FORMS: Mapping[Parser, str] = {
    _networks: "networks in CIDR notation, separated by commas",
    _words: "words, separated by commas",
    _namespaces: "names, separated by commas",
    _pairs: "a JSON object",
    _ports: "`first-last`",
    _path: "a path",
    _keys: "keys, separated by commas",
    _integer: "a whole number",
    _number: "a number",
    _boolean: "`true` or `false` (also `1`, `0`, `yes`, `no`, `on`, `off`)",
}
"""What values each parser accepts, for the documentation."""


def accepted(setting: Field[Any]) -> str:
    """What values the setting accepts, as a phrase."""
    parse = setting.metadata["parse"]
    form = FORMS.get(parse) or str(parse.__doc__)
    return f"{form}, {setting.metadata['least']} or more" if parse in NUMBERS else form


NUMBERS = (_integer, _number)
MOST = {"s": 10**9, "days": 10**4, "bytes": 10**15}
"""The greatest value of a number with this unit: what is longer than 30 years, or larger than a petabyte, is a mistake."""
MOST_OF_OTHERS = 10**6


def most(setting: Field[Any]) -> int:
    """The greatest value that a number may have."""
    return MOST.get(setting.metadata["unit"], MOST_OF_OTHERS)


def _setting(parse: Parser, default: Any, doc: str, *, unit: str = "", secret: bool = False, least: int = 0) -> Any:
    """`least` is the least value of a number."""
    return field(default=default, metadata={"parse": parse, "doc": doc, "unit": unit, "secret": secret, "least": least})


@dataclass(frozen=True, kw_only=True)
class ServiceSettings:
    """The service as a whole."""

    data_dir: Path = _setting(
        _path, Path("pipeline-data"), "Where the embedded servers, the local cluster and the logs keep their files."
    )
    secret_key: str = _setting(
        _keys,
        "",
        "Key that secrets are encrypted with at rest: 32 bytes as URL-safe base64. `pipeline up` makes one in the data "
        "directory; elsewhere it must be set. Several, separated by commas: the first encrypts, all decrypt.",
        secret=True,
    )
    admin_password: str = _setting(
        _named("8 to 128 printable ASCII characters, not 24 letters and digits"),
        "",
        "The admin's password; counts only while none is stored in the database.",
        secret=True,
    )
    development: bool = _setting(
        _boolean,
        False,
        "A development run: the admin's password is `admin` until it is changed. Set by `pipeline up` on a loopback address.",
    )
    namespaces: tuple[str, ...] = _setting(
        _namespaces, ("default",), "Namespaces that jobs may name; the first is the default."
    )
    projects: tuple[str, ...] = _setting(_words, ("public",), "Projects, comma-separated, that flows may name.")
    public_url: str = _setting(
        _url("http", "https"),
        "",
        "The service's URL for users, as `https://pipeline.example`: alerts link to runs there.",
    )


@dataclass(frozen=True, kw_only=True)
class DatabaseSettings:
    """PostgreSQL."""

    database_url: str = _setting(
        _url("postgresql", "postgresql+psycopg2"),
        "",
        "PostgreSQL, as `postgresql://user:password@host:port/name`. `pipeline up` starts its own when this is empty.",
        secret=True,
    )
    database_connections: int = _setting(
        _integer,
        16,
        "Connections to PostgreSQL that each process opens at most, and keeps. A thread needs one only during a transaction.",
        unit="connections",
        least=1,
    )


@dataclass(frozen=True, kw_only=True)
class RedisSettings:
    """Redis, which carries the messages between processes."""

    redis_url: str = _setting(
        _url("redis", "rediss"),
        "",
        "Redis (or a server that speaks its protocol), as `redis://:password@host:port/0`; its `maxmemory-policy` must be "
        "`noeviction`. `pipeline up` starts its own when this is empty.",
        secret=True,
    )
    redis_prefix: str = _setting(_named("any text"), "pipeline:", "What every key in Redis begins with.")
    wake_after_seconds: float = _setting(
        _number, 10.0, "A step that was published and not claimed for so long is published again.", unit="s"
    )
    wake_queue_limit: int = _setting(
        _integer, 2000, "Ticks publish nothing while this many messages or more wait in the queues.", unit="messages"
    )


@dataclass(frozen=True, kw_only=True)
class ApiSettings:
    """The REST API."""

    log_followers: int = _setting(
        _integer,
        16,
        "Log followers that one API process serves at a time, and as many other readers of logs; one user gets at most half.",
        unit="followers",
    )
    event_waiters: int = _setting(
        _integer,
        128,
        "Readers of the feed that wait in one API process at a time for what comes next; one token's owner gets at most half.",
        unit="readers",
    )
    api_connections: int = _setting(
        _integer,
        500,
        "Connections that one API process keeps open. One more closes the one that has waited longest for its client, of "
        "the address that has most of these.",
        unit="connections",
        least=1,
    )
    api_connections_per_address: int = _setting(
        _integer,
        100,
        "Connections of one address (of IPv6: a /64) that one API process keeps open. One more closes the one of that "
        "address that has waited longest for its client. Without effect behind trusted proxies, whose address all have.",
        unit="connections",
        least=1,
    )
    request_head_seconds: float = _setting(
        _number, 10.0, "How long a client may take to send a request's line and headers.", unit="s"
    )
    request_body_seconds: float = _setting(
        _number, 60.0, "How long a client may take to send a request's body.", unit="s"
    )
    failed_logins: int = _setting(
        _integer,
        60,
        "Requests with an invalid token that each API process accepts from one address within a minute. Beyond, it refuses "
        "tokens with which it has not served a request before.",
        unit="requests",
        least=1,
    )
    trusted_proxies: int = _setting(
        _integer, 0, "How many proxies in front of the API set `X-Forwarded-*`.", unit="proxies"
    )


@dataclass(frozen=True, kw_only=True)
class StageSettings:
    """The stages of jobs."""

    stage_budget_seconds: float = _setting(
        _number, 120.0, "How long all plugin calls of a stage together may take, with all attempts.", unit="s"
    )
    stage_threads: int = _setting(
        _integer, 64, "How many steps each process of a stage worker runs at a time.", unit="threads", least=1
    )
    lease_seconds: float = _setting(
        _number,
        10.0,
        "How long a worker holds a step without renewing its lease. It renews the lease three times in that time.",
        unit="s",
        least=1,
    )
    max_claims: int = _setting(
        _integer,
        5,
        "The job fails when a stage was claimed so many times and its worker died each time before the stage was finished. At "
        "least the last time it is tried alone, in a process of its own.",
        unit="claims",
        least=2,
    )
    reconcile_seconds: float = _setting(
        _number, 30.0, "A launched job whose last observation is older than this is observed again.", unit="s"
    )


@dataclass(frozen=True, kw_only=True)
class PluginSettings:
    """Calls of plugins."""

    plugin_networks: tuple[Network, ...] = _setting(
        _networks,
        (),
        "Networks (CIDR, comma-separated) that plugins may be in. Empty: all. Link-local and cloud metadata addresses are "
        "always refused.",
    )
    plugin_concurrency: int = _setting(
        _integer, 128, "How many calls of one plugin all workers together may make at a time.", unit="calls"
    )
    breaker_failures: int = _setting(
        _integer, 5, "After so many calls in a row that did not reach a plugin its circuit opens.", unit="calls"
    )
    breaker_open_seconds: float = _setting(
        _number, 10.0, "How long a circuit stays open before one call probes the plugin.", unit="s"
    )


@dataclass(frozen=True, kw_only=True)
class PodPolicySettings:
    """What pods may contain."""

    pod_policy: str = _setting(
        _choice("baseline", "none"),
        "baseline",
        "What decorators and binders add to pods must conform to this level of the Pod Security Standards.",
    )
    pod_policy_submitted: str = _setting(
        _choice("none", "baseline"), "none", "The same for pods as they are submitted or translated."
    )
    host_paths: tuple[str, ...] = _setting(
        _words, (), "Directories of the nodes, comma-separated, in which the pod policy allows hostPath volumes."
    )


@dataclass(frozen=True, kw_only=True)
class HookSettings:
    """Deliveries to LifeHooks."""

    hook_concurrency: int = _setting(
        _integer,
        8,
        "How many calls of one LifeHook all workers together may make at a time: fewer than the 32 places of a hook worker, "
        "so that a LifeHook that hangs does not hold up the others.",
        unit="calls",
    )
    hook_retry_min_seconds: float = _setting(
        _number, 2.0, "The first pause between two attempts of a delivery.", unit="s"
    )
    hook_retry_max_seconds: float = _setting(
        _number, 300.0, "The longest pause between two attempts of a delivery.", unit="s"
    )
    hook_give_up_seconds: float = _setting(
        _number,
        86400.0,
        "A delivery whose event is older than this gets no more attempts and is `exhausted`.",
        unit="s",
    )


@dataclass(frozen=True, kw_only=True)
class AlertSettings:
    """Alerts about runs of flows."""

    alert_url: str = _setting(
        _url("http", "https"),
        "",
        "Where alerts about changes of the states of runs are sent, for flows that ask for them. Empty: nowhere.",
    )
    alert_authorization: str = _setting(
        _named("the value of a header, such as `Bearer …`"),
        "",
        "What alerts carry in the header `Authorization`.",
        secret=True,
    )
    alert_signing_secret: str = _setting(
        _named("`whsec_` and base64"),
        "",
        "What alerts are signed with (`whsec_` and base64), as calls of plugins are.",
        secret=True,
    )


@dataclass(frozen=True, kw_only=True)
class FlowSettings:
    """What tasks of flows may use."""

    gpu_resources: Pairs = _setting(
        _pairs,
        (("gpu", "nvidia.com/gpu"),),
        "Vendors of GPUs that tasks may request, each with its Kubernetes resource, as a JSON object. `gpu` is the default "
        "of tasks that name no vendor.",
    )
    vgpu_resource: Pairs = _setting(
        _pairs,
        (),
        "Kubernetes resources for a share of a GPU, as a JSON object: `cores` (requested in percent of a card) and "
        "`memory` (in percent too, or in parts of `memory_per_card`). Empty: no shares.",
    )
    rdma_resource: str = _setting(
        _named("the name of a resource, such as `rdma/hca`"),
        "",
        "Kubernetes resource of an RDMA device. Empty: tasks may request none.",
    )
    mount_secrets: tuple[str, ...] = _setting(_words, (), "Secrets, comma-separated, that tasks of flows may mount.")
    host_ports: str = _setting(
        _ports,
        "20000-29999",
        "Host ports, as `first-last`, that are leased to tasks of flows which need them: tasks with the host's network, and "
        "distributed ones on the local cluster.",
    )
    run_max_bytes: int = _setting(
        _integer,
        64 * 1024 * 1024,
        "How much a run may store: the values of its flow's `global_env`, once and again with each task, and all TaskSets of its "
        "tasks' jobs together.",
        unit="bytes",
    )
    debug_seconds: int = _setting(
        _integer, 3600, "How long the pod runs that a debug run starts in place of the task.", unit="s", least=1
    )


@dataclass(frozen=True, kw_only=True)
class ClusterSettings:
    """The cluster that jobs run in."""

    cluster_driver: str = _setting(
        _choice("local", "kubernetes", "null"),
        "local",
        "Where jobs run: `local` (processes on this machine), `kubernetes`, or `null` (reports success at once).",
    )
    cluster_name: str = _setting(_named("a name"), "local", "The cluster's name in a job's detail.")
    stop_grace_seconds: float = _setting(
        _number,
        10.0,
        "The grace period of a replica after a stop, unless its pod sets another.",
        unit="s",
    )


@dataclass(frozen=True, kw_only=True)
class KubernetesSettings:
    """The driver `kubernetes`."""

    kubeconfig: str = _setting(
        _named("a path"),
        "",
        "Kubeconfig file of the cluster that jobs run in. Empty: the cluster that the service itself runs in.",
    )
    kube_context: str = _setting(
        _named("the name of a context"), "", "The context of that file. Empty: its current one."
    )
    image_pull_secrets: tuple[str, ...] = _setting(
        _words,
        (),
        "Image pull secrets, comma-separated, of pods that name none. The service never reads them.",
    )
    pending_timeout: float = _setting(
        _number,
        300.0,
        "How long a pod on a node may wait for an image that cannot be pulled, or with a wrong configuration, until it has "
        "failed. Six times as long where its containers are being created and nothing is known to be wrong.",
        unit="s",
    )
    scheduling_timeout: float = _setting(
        _number, 604800.0, "How long a pod may wait for a node until it has failed.", unit="s"
    )
    archive_url: str = _setting(
        _named("a directory, or a URL for fsspec"),
        "",
        "Where logs of deleted pods are stored, as a URL for fsspec: a directory, `s3://bucket/path`… Empty: `archive` in "
        "the data directory.",
    )
    archive_wait: float = _setting(
        _number,
        60.0,
        "How long the service waits for the logs of a pod that has ended. After that, a log that cannot be read is given up, "
        "and one that cannot be stored delays only the deletion of the pod, for a day at most.",
        unit="s",
    )
    pod_ttl: float = _setting(
        _number,
        0.0,
        "How long the pods of a job are kept after the job has ended; pods that still run are ended at once. 0: not at all. "
        "It has no effect on the local cluster.",
        unit="s",
    )
    collector_image: str = _setting(
        _named("an image"),
        "",
        "Image of the container that collects a task's metrics on Kubernetes. Empty: none are collected there.",
    )


@dataclass(frozen=True, kw_only=True)
class LocalSettings:
    """The driver `local`."""

    local_slots: int = _setting(
        _integer,
        32,
        "How many replicas the local cluster runs at a time; the others wait. 0: no limit.",
        unit="replicas",
    )


@dataclass(frozen=True, kw_only=True)
class OperationSettings:
    """Retention, logs and probes of the service."""

    retention_days: float = _setting(
        _number,
        90.0,
        "How long jobs and runs are kept after they have ended, with all that belongs to them; then they are deleted. 0: "
        "forever.",
        unit="days",
    )
    log_days: float = _setting(
        _number,
        30.0,
        "How long the logs of jobs are kept after their end, if the jobs are; then they are deleted. 0: as long as the jobs.",
        unit="days",
    )
    log_limit_bytes: int = _setting(
        _integer,
        1024**3,
        "How large the log of one run of a container may become, with the time of each line; its last line then says that "
        "nothing more is kept. 0: no limit.",
        unit="bytes",
    )
    task_events: bool = _setting(
        _boolean, False, "Workers send Celery's task events, which Flower shows. Set by `pipeline up --flower`."
    )
    flower_password: str = _setting(
        _named("any text"),
        "",
        "Flower's password, for the user `admin`. `pipeline up --flower` makes one in the data directory when this is empty.",
        secret=True,
    )
    liveness_file: str = _setting(
        _named("a path"),
        "",
        "The liveness file: workers, beat and the watcher touch it at least twice a minute, and a probe checks its age. "
        "Workers and beat do not touch it while Redis is unavailable. Empty: none.",
    )
    log_format: str = _setting(_choice("json", "console"), "json", "Format of the service's own log lines.")
    log_level: str = _setting(
        _choice("debug", "info", "warning", "error"), "info", "The least severe log line that is written."
    )


@dataclass(frozen=True, kw_only=True)
class Settings(
    ServiceSettings,
    DatabaseSettings,
    RedisSettings,
    ApiSettings,
    StageSettings,
    PluginSettings,
    PodPolicySettings,
    HookSettings,
    AlertSettings,
    FlowSettings,
    ClusterSettings,
    KubernetesSettings,
    LocalSettings,
    OperationSettings,
):
    """All settings. A function that needs those of one group takes the group: `def connect(settings: RedisSettings)`."""

    def __post_init__(self) -> None:
        problems = [text for holds, text in self._rules() if not holds]
        if problems:
            raise ConfigurationError("; ".join(problems))

    def _rules(self) -> list[tuple[bool, str]]:
        return [
            (bool(self.namespaces), "PIPELINE_NAMESPACES names no namespace"),
            (
                self.hook_retry_min_seconds <= self.hook_retry_max_seconds,
                f"PIPELINE_HOOK_RETRY_MIN_SECONDS ({self.hook_retry_min_seconds:g}) must be at most"
                f" PIPELINE_HOOK_RETRY_MAX_SECONDS ({self.hook_retry_max_seconds:g})",
            ),
            *(
                rule
                for setting in fields(self)
                if setting.metadata["parse"] in NUMBERS
                for rule in self._bounds(setting)
            ),
        ]

    def _bounds(self, setting: Field[Any]) -> list[tuple[bool, str]]:
        value, least = getattr(self, setting.name), setting.metadata["least"]
        shown = f"{variable(setting)} ({value:g})"
        return [
            (value >= least, f"{shown} must be at least {least}"),
            (value <= most(setting), f"{shown} must be at most {most(setting)}"),
        ]

    @property
    def port_range(self) -> range:
        """The ports that are leased to tasks."""
        first, last = map(int, self.host_ports.split("-"))
        return range(first, last + 1)

    @property
    def soft_limit_seconds(self) -> float:
        """A plugin's `timeoutSeconds` may be 300, so no stage's budget is above the larger of that and the setting."""
        return max(self.stage_budget_seconds, 300.0) + 30

    @property
    def hard_limit_seconds(self) -> float:
        return self.soft_limit_seconds + 30


GROUPS: tuple[type, ...] = (
    ServiceSettings,
    DatabaseSettings,
    RedisSettings,
    ApiSettings,
    StageSettings,
    PluginSettings,
    PodPolicySettings,
    HookSettings,
    AlertSettings,
    FlowSettings,
    ClusterSettings,
    KubernetesSettings,
    LocalSettings,
    OperationSettings,
)
"""The groups in the order of the documentation."""


def variable(setting: Field[Any]) -> str:
    """The environment variable that sets this field."""
    return f"PIPELINE_{setting.name.upper()}"


@part
def settings() -> Settings:
    """The settings of this process, from its environment; an empty variable counts as not set.

    Raises ConfigurationError, naming each invalid variable, its value and what would be right.
    """
    env = Env()
    values: dict[str, Any] = {}
    errors = []
    for setting in fields(Settings):
        name = variable(setting)
        if not os.environ.get(name):
            continue
        try:
            values[setting.name] = setting.metadata["parse"](env, name)
        except (EnvError, ValueError) as error:
            errors.append(f"{name}: {error}")
    if errors:
        raise ConfigurationError("; ".join(errors))
    return Settings(**values)
