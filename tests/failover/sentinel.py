"""A Valkey with a replica and three Sentinels: all real servers, on ports of the loopback interface."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import ClassVar

from redis import Redis
from redis.exceptions import RedisError

from pipeline_up.embedded import EmbeddedRedis
from pipeline_up.embedded.redis import HOST, configuration_text
from tests.waiting import HANG_SECONDS, wait_for

MASTER = "pipeline"
DOWN_AFTER_MS = 1000
SENTINELS = 3


class Member(EmbeddedRedis):
    """A primary, or with `of` a replica of it. Any of them may be primary later: all have one password."""

    def __init__(self, directory: Path, of: Member | None = None) -> None:
        super().__init__(directory, durable=False)
        self.of = of

    @property
    def port(self) -> int:
        """Its port."""
        return int(self.url.rpartition(":")[2].partition("/")[0])

    def _prepare_files(self) -> None:
        if self.of:
            self._write(self.directory / "password", self.of._password())
        super()._prepare_files()
        settings = {"masterauth": self._password()}
        if self.of:
            settings["replicaof"] = f"{HOST} {self.of.port}"
        lines = configuration_text(settings).replace(f'"{HOST} ', f"{HOST} ").replace('"\n', "\n").replace(' "', " ")
        self._write(self._configuration, self._configuration.read_text() + lines)

    def vanish(self) -> None:
        """Kill it."""
        assert self._process
        self._process.kill()
        self._process.wait(HANG_SECONDS)


class Sentinel(EmbeddedRedis):
    """One of the Sentinels that watch a primary."""

    name: ClassVar[str] = "sentinel"

    def __init__(self, directory: Path, primary: Member) -> None:
        super().__init__(directory, durable=False)
        self.primary = primary

    @property
    def identity(self) -> list[str]:
        return [str(self._configuration), "--sentinel"]

    def _prepare_files(self) -> None:
        super()._prepare_files()
        port = self.url.rpartition(":")[2].partition("/")[0]
        self.url = f"redis://{HOST}:{port}/0"
        settings = (
            f"bind {HOST}",
            f"port {port}",
            "set-proc-title no",
            f"sentinel monitor {MASTER} {HOST} {self.primary.port} 2",
            f"sentinel auth-pass {MASTER} {self.primary._password()}",
            f"sentinel down-after-milliseconds {MASTER} {DOWN_AFTER_MS}",
            f"sentinel failover-timeout {MASTER} 10000",
        )
        self._write(self._configuration, "\n".join(settings) + "\n")

    def knows_all(self) -> bool:
        """Whether it has found the replica and the other Sentinels."""
        with Redis.from_url(self.url, decode_responses=True) as client:
            try:
                state = client.sentinel_master(MASTER)
            except RedisError:
                return False
        return bool(state["num-slaves"] == 1 and state["num-other-sentinels"] == SENTINELS - 1)


@contextmanager
def watched_by_sentinels(directory: Path) -> Iterator[tuple[Member, Member, str]]:
    """The primary, its replica, and the URL of the Sentinels."""
    with ExitStack() as servers:
        primary = servers.enter_context(Member(directory / "primary"))
        replica = servers.enter_context(Member(directory / "replica", primary))
        sentinels = [servers.enter_context(Sentinel(directory / f"sentinel{n}", primary)) for n in range(SENTINELS)]
        wait_for(lambda: all(sentinel.knows_all() for sentinel in sentinels), "the Sentinels to find each other")
        hosts = ",".join(sentinel.url.removeprefix("redis://").partition("/")[0] for sentinel in sentinels)
        yield primary, replica, f"sentinel://:{primary._password()}@{hosts}/0?master={MASTER}"
