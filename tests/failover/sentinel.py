"""A Valkey with a replica and three Sentinels: all real servers, on ports of the loopback interface."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from redis import Redis
from redis.exceptions import RedisError

from pipeline_up.embedded import EmbeddedRedis
from pipeline_up.embedded.redis import HOST
from tests.waiting import HANG_SECONDS, wait_for

MASTER = "pipeline"
DOWN_AFTER_MS = 1000
SENTINELS = 3


class Mortal(EmbeddedRedis):
    """A server that can be killed."""

    def vanish(self) -> None:
        """Kill it."""
        assert self._process
        self._process.kill()
        self._process.wait(HANG_SECONDS)


class Member(Mortal):
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
        lines = "".join(f"{name} {value}\n" for name, value in settings.items())
        self._write(self._configuration, self._configuration.read_text() + lines)


class Sentinel(Mortal):
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


@dataclass(frozen=True)
class Servers:
    """The primary, its replica and the Sentinels, and the URL of these."""

    primary: Member
    replica: Member
    sentinels: Sequence[Sentinel]

    @property
    def url(self) -> str:
        """The Sentinels, as the service takes them."""
        hosts = ",".join(sentinel.url.removeprefix("redis://").partition("/")[0] for sentinel in self.sentinels)
        return f"sentinel://:{self.primary._password()}@{hosts}/0?master={MASTER}"

    def kill_primary(self) -> None:
        """Kill the primary, and the Sentinel that the service asks first, as the end of their machine would."""
        self.sentinels[0].vanish()
        self.primary.vanish()

    def step_down(self) -> None:
        """Have the primary and the replica change places."""
        with Redis.from_url(self.sentinels[0].url) as client:
            client.execute_command("SENTINEL", "FAILOVER", MASTER)


@contextmanager
def watched_by_sentinels(directory: Path) -> Iterator[Servers]:
    """All servers, when they know each other."""
    with ExitStack() as running:
        primary = running.enter_context(Member(directory / "primary"))
        replica = running.enter_context(Member(directory / "replica", primary))
        sentinels = [running.enter_context(Sentinel(directory / f"sentinel{n}", primary)) for n in range(SENTINELS)]
        wait_for(lambda: all(sentinel.knows_all() for sentinel in sentinels), "the Sentinels to find each other")
        yield Servers(primary, replica, sentinels)
