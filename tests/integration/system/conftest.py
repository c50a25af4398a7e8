"""One installation for all tests of this folder: real processes, the local cluster, plugins over HTTP."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.installation import Installation, installed
from tests.integration.system.gates import Start, listens
from tests.plugin_server import PluginServer, serving
from tests.servers import fresh_database
from tests.waiting import wait_for

QUICK = {
    "PIPELINE_WAKE_AFTER_SECONDS": "2",
    "PIPELINE_RECONCILE_SECONDS": "5",
    "PIPELINE_HOOK_RETRY_MIN_SECONDS": "0.2",
    "PIPELINE_STOP_GRACE_SECONDS": "1",
    "PIPELINE_TASK_EVENTS": "1",
}


@pytest.fixture(scope="package")
def running(
    tmp_path_factory: pytest.TempPathFactory, postgres_url: str, migrated_database: str, redis_url: str
) -> Iterator[Installation]:
    """An installation in which everything runs."""
    directory = tmp_path_factory.mktemp("installation")
    with (
        fresh_database(postgres_url, template=migrated_database) as database_url,
        installed(directory, database_url, redis_url, split=False, **QUICK) as installation,
    ):
        installation.start()
        wait_for(lambda: installation.ask("GET", "/readyz").status_code == 200, "the API")
        yield installation
        wait_for(
            lambda: all(
                installation.job(job["jobID"])["cleanup"] in (None, "done")
                for job in installation.get("/v1/job/list?state=stopped&pageSize=500")
            ),
            "stopped jobs to be gone from the cluster",
        )


@pytest.fixture
def service(running: Installation) -> Iterator[Installation]:
    """The installation, without any features or unfinished jobs before and after the test.

    A job that went on would send its changes to the subscribers of the next test.
    """
    yield running
    for job in running.get("/v1/job/list?state=waiting,running,suspended&pageSize=500"):
        running.ask("PUT", f"/v1/job/stop/{job['jobID']}")
    for feature in running.get("/v1/features/list/all"):
        running.ask("DELETE", f"/v1/features/{feature['name']}")


@pytest.fixture(scope="package")
def plugin_server() -> Iterator[PluginServer]:
    with serving() as server:
        yield server


@pytest.fixture
def plugins(plugin_server: PluginServer) -> PluginServer:
    """A plugin server without any recorded requests."""
    plugin_server.plugins.clear()
    plugin_server.calls.clear()
    return plugin_server


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a gate with a free port as its first argument; its address. All that were started are ended."""
    processes: list[subprocess.Popen[bytes]] = []

    def begin(*command: object, then: tuple[object, ...] = ()) -> str:
        while True:
            with socket.create_server(("127.0.0.1", 0)) as free:
                port = free.getsockname()[1]
            process = subprocess.Popen([str(word) for word in (*command, port, *then)], cwd=tmp_path)
            processes.append(process)
            wait_for(lambda: process.poll() is not None or listens(port), "the gate to listen")  # noqa: B023
            if process.poll() is None:
                return f"http://127.0.0.1:{port}"
            # Somebody else took the port meanwhile; anything else is wrong with the gate, and would go on for ever.
            assert len(processes) < 5

    yield begin
    for process in processes:
        process.kill()
        process.wait()
