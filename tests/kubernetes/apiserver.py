"""An etcd and an API server of the tests' own, on free ports of the loopback interface."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kubernetes import client, config
from urllib3.exceptions import HTTPError

from tests.integration.clusters.support import alive
from tests.waiting import wait_for

NAME = "kube-apiserver"


class RunningServer:
    """An API server that runs, as `kube-apiserver.pid` beside its kubeconfig says: to be killed and started again."""

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig
        self._pid_file = kubeconfig.with_name(f"{NAME}.pid")
        self._command = Path(f"/proc/{self._pid}/cmdline").read_bytes().decode().split("\0")[:-1]
        assert Path(self._command[0]).name == NAME

    @property
    def _pid(self) -> int:
        return int(self._pid_file.read_text())

    def kill(self) -> None:
        """End it at once."""
        pid = self._pid
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not alive(pid))

    def ensure(self) -> None:
        """Start it if it does not run."""
        if not alive(self._pid):
            self.start()

    def start(self) -> None:
        """Start it again, with the same data and address, and wait until it answers."""
        with self._kubeconfig.with_name(f"{NAME}.log").open("ab") as log:
            process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self._pid_file.write_text(f"{process.pid}\n")
        wait_for(lambda: _is_ready(self._kubeconfig), "the API server")


@contextmanager
def running_api_server(assets: Path, directory: Path) -> Iterator[Path]:
    """The path of a kubeconfig with the contexts `admin` and `svc`, a user without rights."""
    etcd_port, peer_port, port = free_port(), free_port(), free_port()
    tokens = {name: secrets.token_hex(16) for name in ("admin", "svc")}
    (directory / "tokens.csv").write_text(f"{tokens['admin']},admin,1,system:masters\n{tokens['svc']},svc,2,tests\n")
    key = directory / "service-accounts.key"
    subprocess.run(["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True)
    etcd, peer = f"http://127.0.0.1:{etcd_port}", f"http://127.0.0.1:{peer_port}"
    commands = [
        [
            str(assets / "etcd"),
            f"--data-dir={directory / 'etcd'}",
            f"--listen-client-urls={etcd}",
            f"--advertise-client-urls={etcd}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
        ],
        [
            str(assets / "kube-apiserver"),
            f"--etcd-servers={etcd}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={directory / 'certificates'}",
            f"--token-auth-file={directory / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.0.0.0/24",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--disable-admission-plugins=ServiceAccount",
        ],
    ]
    processes = []
    try:
        for command in commands:
            with (directory / f"{Path(command[0]).name}.log").open("wb") as log:
                processes.append(subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT))
        pid_file = directory / f"{NAME}.pid"
        pid_file.write_text(f"{processes[-1].pid}\n")
        path = directory / "kubeconfig"
        path.write_text(json.dumps(_kubeconfig(f"https://127.0.0.1:{port}", tokens)))
        wait_for(lambda: _is_ready(path), "the API server")
        yield path
    finally:
        with suppress(ProcessLookupError):
            # It may have been started again.
            os.kill(int(pid_file.read_text()), signal.SIGTERM)
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            process.wait()


def _is_ready(path: Path) -> bool:
    try:
        client.CoreV1Api(config.new_client_from_config(str(path), persist_config=False)).read_namespace(
            "default", _request_timeout=2
        )
    except (HTTPError, OSError, client.ApiException):
        return False
    return True


def _kubeconfig(server: str, tokens: dict[str, str]) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "admin",
        "clusters": [{"name": "here", "cluster": {"server": server, "insecure-skip-tls-verify": True}}],
        "users": [{"name": name, "user": {"token": token}} for name, token in tokens.items()],
        "contexts": [{"name": name, "context": {"cluster": "here", "user": name}} for name in tokens],
    }


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
