"""A server that speaks S3, on a loopback port: SeaweedFS, with one user."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from botocore.exceptions import BotoCoreError
from s3fs import S3FileSystem

from pipeline_up.embedded.redis import free_port
from tests.waiting import HANG_SECONDS, wait_for

KEY, SECRET = "pipeline", "not a real secret"
BUCKET = "logs"
SERVICES = ("master", "volume", "filer", "s3")


@dataclass
class S3Server:
    """The server, whose data are in `directory`."""

    directory: Path
    ports: dict[str, int] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """What `AWS_ENDPOINT_URL` is set to."""
        return f"http://127.0.0.1:{self.ports['s3.port']}"

    def files(self) -> S3FileSystem:
        """What the server has, without a cache."""
        return S3FileSystem(
            key=KEY, secret=SECRET, endpoint_url=self.url, use_listings_cache=False, skip_instance_cache=True
        )

    def start(self) -> None:
        """Start it, with the data and the ports that it had before, and wait until it serves the bucket."""
        users = self.directory / "users.json"
        credentials = {"accessKey": KEY, "secretKey": SECRET}
        user = {"name": KEY, "credentials": [credentials], "actions": ["Admin", "Read", "Write", "List"]}
        users.write_text(json.dumps({"identities": [user]}))
        data = self.directory / "data"
        data.mkdir(exist_ok=True)
        words = [
            f"-dir={data}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-filer", "-s3", f"-s3.config={users}",
            "-s3.port.iceberg=0", "-master.telemetry=false", "-volume.max=20", "-master.volumeSizeLimitMB=64",
            # After a start there is no leader for as long as an election may take, by default ten seconds.
            "-master.electionTimeout=1s", "-master.heartbeatInterval=100ms",
            *(f"-{name}={port}" for name, port in self.ports.items()),
        ]  # fmt: skip
        with (self.directory / "weed.log").open("ab") as log:
            weed = Path(sys.executable).parent / "weed"
            self.process = subprocess.Popen([weed, "-logtostderr=true", "server", *words], stdout=log, stderr=log)
        wait_for(self._serves, "the S3 server")

    def kill(self) -> None:
        """End it by SIGKILL."""
        if self.process:
            self.process.kill()
            self.process.wait(HANG_SECONDS)
            self.process = None

    def _serves(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, (self.directory / "weed.log").read_text()[-2000:]
        probe = f"{BUCKET}/probe"
        try:
            files = self.files()
            if not files.exists(BUCKET):
                files.mkdir(BUCKET)
            files.pipe_file(probe, b"x")
            return bool(files.cat_file(probe) == b"x")
        except (OSError, BotoCoreError):
            return False


@contextmanager
def s3_server(directory: Path) -> Iterator[S3Server]:
    """A server on free ports, with a bucket."""
    names = [name for service in SERVICES for name in (f"{service}.port", f"{service}.port.grpc")]
    server = S3Server(directory, {name: free_port() for name in names})
    try:
        server.start()
        yield server
    finally:
        server.kill()
