"""Where TaskSets run. `base` has the interface and the values that cross it; each driver is a module or package.

From outside: `cluster()` and what `base` defines. Kept free of imports, because the local driver's supervisors load
this package too and ought to stay small.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pipeline_core.clusters.base import Cluster

_drivers: dict[str, Cluster] = {}


def cluster() -> Cluster:
    """This process's cluster: the driver that PIPELINE_CLUSTER_DRIVER names.

    Raises ConfigurationError when there is no such driver, or it cannot be had by the settings.
    """
    from pipeline_core.settings import settings

    driver = settings().cluster_driver
    if driver not in _drivers:
        _drivers[driver] = _make(driver)
    return _drivers[driver]


def _make(driver: str) -> Cluster:
    from pipeline_core.errors import ConfigurationError
    from pipeline_core.settings import settings

    chosen = settings()
    if driver == "local":
        from pipeline_core.clusters.local.driver import LocalCluster

        return LocalCluster(
            chosen.cluster_name,
            chosen.data_dir / "cluster",
            slots=chosen.local_slots,
            grace_seconds=chosen.stop_grace_seconds,
        )
    if driver == "null":
        from pipeline_core.clusters.null import NullCluster

        return NullCluster(chosen.cluster_name)
    if driver == "kubernetes":
        return _kubernetes()
    raise ConfigurationError(f'PIPELINE_CLUSTER_DRIVER is "{driver}": use local, kubernetes or null')


def _kubernetes() -> Cluster:
    from datetime import timedelta

    from pipeline_core.clusters.kubernetes.api import connect
    from pipeline_core.clusters.kubernetes.archive import Archive
    from pipeline_core.clusters.kubernetes.driver import KubernetesCluster
    from pipeline_core.clusters.kubernetes.rules import Limits
    from pipeline_core.settings import settings

    chosen = settings()
    return KubernetesCluster(
        chosen.cluster_name,
        connect(chosen.kubeconfig, chosen.kube_context),
        Archive(chosen.archive_url or str((chosen.data_dir / "archive").absolute())),
        namespaces=chosen.namespaces,
        limits=Limits(timedelta(seconds=chosen.pending_timeout), timedelta(seconds=chosen.scheduling_timeout)),
        grace_seconds=chosen.stop_grace_seconds,
        pull_secrets=chosen.image_pull_secrets,
        archive_wait=chosen.archive_wait,
        collector_image=chosen.collector_image,
    )
