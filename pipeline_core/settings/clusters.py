"""Settings of the clusters that jobs run in."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline_core.settings.declaration import choice, integer, named, number, setting, words


@dataclass(frozen=True, kw_only=True)
class ClusterSettings:
    """The cluster that jobs run in."""

    cluster_driver: str = setting(
        choice("local", "kubernetes", "null"),
        "local",
        "Where jobs run: `local` (processes on this machine), `kubernetes`, or `null` (reports success at once).",
    )
    cluster_name: str = setting(named("a name"), "local", "The cluster's name in a job's detail.")
    stop_grace_seconds: float = setting(
        number,
        10.0,
        "The grace period of a replica after a stop, unless its pod sets another.",
        unit="s",
    )


@dataclass(frozen=True, kw_only=True)
class KubernetesSettings:
    """The driver `kubernetes`."""

    kubeconfig: str = setting(
        named("a path"),
        "",
        "Kubeconfig file of the cluster that jobs run in. Empty: the cluster that the service itself runs in.",
    )
    kube_context: str = setting(named("the name of a context"), "", "The context of that file. Empty: its current one.")
    image_pull_secrets: tuple[str, ...] = setting(
        words,
        (),
        "Image pull secrets, comma-separated, of pods that name none. The service never reads them.",
    )
    pending_timeout: float = setting(
        number,
        300.0,
        "How long a pod on a node may wait for an image that cannot be pulled, or with a wrong configuration, until it has "
        "failed. Six times as long where its containers are being created and nothing is known to be wrong.",
        unit="s",
    )
    scheduling_timeout: float = setting(
        number, 604800.0, "How long a pod may wait for a node until it has failed.", unit="s"
    )
    archive_url: str = setting(
        named("a directory, or a URL for fsspec"),
        "",
        "Where logs of deleted pods are stored, as a URL for fsspec: a directory, `s3://bucket/path`… Empty: `archive` in "
        "the data directory.",
    )
    archive_wait: float = setting(
        number,
        60.0,
        "How long the service waits for the logs of a pod that has ended. After that, a log that cannot be read is given up, "
        "and one that cannot be stored delays only the deletion of the pod, for a day at most.",
        unit="s",
    )
    pod_ttl: float = setting(
        number,
        0.0,
        "How long the pods of a job are kept after the job has ended; pods that still run are ended at once. 0: not at all. "
        "It has no effect on the local cluster.",
        unit="s",
    )
    collector_image: str = setting(
        named("an image"),
        "",
        "Image of the container that collects a task's metrics on Kubernetes. Empty: none are collected there.",
    )


@dataclass(frozen=True, kw_only=True)
class LocalSettings:
    """The driver `local`."""

    local_slots: int = setting(
        integer,
        32,
        "How many replicas the local cluster runs at a time; the others wait. 0: no limit.",
        unit="replicas",
    )
