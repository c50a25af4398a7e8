"""TemplateTranslator: an MPIJob (kubeflow.org/v2beta1) becomes a TaskSet.

The fields of an MPIJob: https://www.kubeflow.org/docs/components/trainer/legacy-v1/user-guides/mpi/
"""

from __future__ import annotations

from typing import Any

from kubeflow_jobs import (
    DECIDES,
    Untranslatable,
    hosts_variable,
    replica_specs,
    replicas,
    role,
    run_before,
    set_variables,
    taskset,
)

LAUNCHER, WORKER = "Launcher", "Worker"
FIELD = "mpiReplicaSpecs"
# Where each finds its list of hosts, how a line of it reads, and what else helps.
IMPLEMENTATIONS: dict[str, tuple[str, str, dict[str, str]]] = {
    "OpenMPI": (
        "OMPI_MCA_orte_default_hostfile",
        "$mpi_host slots={slots}",
        # A worker's ssh daemon may come up after the launcher.
        {"OMPI_MCA_orte_keep_fqdn_hostnames": "true", "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10"},
    ),
    "Intel": (
        "I_MPI_HYDRA_HOST_FILE",
        "$mpi_host:{slots}",
        {"I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS": "-o ConnectionAttempts=10"},
    ),
    "MPICH": ("HYDRA_HOST_FILE", "$mpi_host:{slots}", {"HYDRA_LAUNCH_EXTRA_ARGS": "-o ConnectionAttempts=10"}),
}
HOST_VOLUME, HOST_DIRECTORY = "mpi-hosts", "/mpi-hosts"
HOST_FILE = f"{HOST_DIRECTORY}/hosts"
DAEMON = ["/usr/sbin/sshd", "-De"]


def translate(packet: dict[str, Any]) -> dict[str, Any]:
    """The TaskSet for the MPIJob in `packet["job"]`: roles `launcher` and `worker`. It succeeds with its launcher.

    The list of hosts is made where the launcher runs. Keys for ssh are no matter of a TaskSet: they are in the image, or
    in a secret that the pod templates mount.
    """
    job = packet["job"]
    specs = replica_specs(job, FIELD, (LAUNCHER, WORKER))
    if LAUNCHER not in specs or replicas(specs[LAUNCHER]) != 1:
        raise Untranslatable(f"spec.{FIELD}.{LAUNCHER}: there must be one, with one replica")
    if WORKER not in specs or not replicas(specs[WORKER]):
        raise Untranslatable(f"spec.{FIELD}.{WORKER}: there must be at least one")
    implementation = job["spec"].get("mpiImplementation", "OpenMPI")
    if implementation not in IMPLEMENTATIONS:
        raise Untranslatable(f"spec.mpiImplementation: known are {', '.join(IMPLEMENTATIONS)}")
    path = f"spec.{FIELD}.{LAUNCHER}"
    launcher = role("launcher", 1, specs[LAUNCHER], job, path) | {"eventPolicy": DECIDES}
    variable, line, more = IMPLEMENTATIONS[implementation]
    container = launcher["template"]["spec"]["containers"][0]
    set_variables(container, more)
    if container.get("command"):
        run_before(container, f"{variable}=$(mktemp); export {variable}\n" + host_list(job, line, f"${variable}"))
    else:
        add_host_file(launcher["template"]["spec"], variable, host_list(job, line, HOST_FILE))
    worker = role("worker", replicas(specs[WORKER]), specs[WORKER], job, f"spec.{FIELD}.{WORKER}")
    container = worker["template"]["spec"]["containers"][0]
    if not container.get("command") and not container.get("args"):
        container["command"] = DAEMON
    return taskset(packet, [launcher, worker])


def add_host_file(pod: dict[str, Any], variable: str, script: str) -> None:
    """Write the list of hosts by an init container of the same image, for a container that runs its image's entrypoint."""
    container = pod["containers"][0]
    mount = {"name": HOST_VOLUME, "mountPath": HOST_DIRECTORY}
    writer = {
        "name": HOST_VOLUME,
        "image": container.get("image"),
        "command": ["sh", "-c", script],
        "volumeMounts": [mount],
    }
    pod["initContainers"] = [*(pod.get("initContainers") or []), writer]
    pod["volumes"] = [*(pod.get("volumes") or []), {"name": HOST_VOLUME, "emptyDir": {}}]
    container["volumeMounts"] = [*(container.get("volumeMounts") or []), mount]
    set_variables(container, {variable: HOST_FILE})


def host_list(job: dict[str, Any], line: str, file: str) -> str:
    """A script that writes the list of hosts into `file`."""
    of = ["launcher", "worker"] if job["spec"].get("runLauncherAsWorker") else ["worker"]
    hosts = ",".join(f"${hosts_variable(name)}" for name in of)
    entry = line.format(slots=int(job["spec"].get("slotsPerWorker", 1)))
    return f'mpi_hosts="{hosts}"; IFS=,\nfor mpi_host in $mpi_hosts; do echo "{entry}"; done > "{file}"; unset IFS'
