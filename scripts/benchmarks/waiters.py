"""Readers that wait for the feed of events, from a process of their own, as consoles do: `python -m … URL TOKEN COUNT`.

Prints `ready` once all of them know the end of the feed. After a line with a position on standard input it waits until each has
read up to there, and prints how many milliseconds after each change of a job's state each had it, as a JSON array.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from pipeline_core.common.clock import parse_rfc3339
from pipeline_core.database.models import FeedKind

WAIT_SECONDS, LIMIT = 25, 1000
KINDS = ",".join(FeedKind)
PATIENCE_SECONDS = 300.0


class Waiter:
    """One connection that asks for what comes next, again and again. Answers are kept as they came, and read afterwards."""

    def __init__(self, url: str, token: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=2 * WAIT_SECONDS)
        self._token = token
        self._answers: list[tuple[float, bytes]] = []
        self.position = self._ask("after=latest")[0]

    def follow(self) -> None:
        while True:
            position, answer = self._ask(f"after={self.position}&kind={KINDS}&wait={WAIT_SECONDS}&limit={LIMIT}")
            self._answers.append((time.time(), answer))
            self.position = position

    def lags(self) -> Iterator[float]:
        """Milliseconds from each change of a state until it was here."""
        for heard, answer in self._answers:
            for entry in json.loads(answer)["payload"]:
                if entry["kind"] == FeedKind.STATE:
                    yield (heard - parse_rfc3339(entry["occurredAt"]).timestamp()) * 1000

    def _ask(self, query: str) -> tuple[int, bytes]:
        self._connection.request("GET", f"/v1/events?{query}", headers={"token": self._token})
        response = self._connection.getresponse()
        answer = response.read()
        if response.status != 200 or response.getheader("X-Waiters-Full"):
            raise RuntimeError(f"{response.status}, it does not wait: {answer[:1000].decode()}")
        return int(response.headers["X-Next-Cursor"]), answer


@contextmanager
def waiting(url: str, token: str, count: int) -> Iterator[Callable[[int], list[float]]]:
    """So many readers wait meanwhile. The function that is given returns what the process prints for a position, and ends it."""
    argv = [sys.executable, "-m", "scripts.benchmarks.waiters", url, token, str(count)]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def lags(position: int) -> list[float]:
        return list(json.loads(process.communicate(f"{position}\n", timeout=PATIENCE_SECONDS)[0]))

    try:
        if not process.stdout or process.stdout.readline() != "ready\n":
            raise RuntimeError("the readers of the feed did not start")
        yield lags
    finally:
        process.kill()
        process.wait()


def main() -> None:
    url, token, count = sys.argv[1:]
    threading.excepthook = _end
    waiters = [Waiter(url, token) for _ in range(int(count))]
    for waiter in waiters:
        threading.Thread(target=waiter.follow, daemon=True).start()
    print("ready", flush=True)
    position = int(sys.stdin.readline())
    while any(waiter.position < position for waiter in waiters):
        time.sleep(0.05)
    print(json.dumps([lag for waiter in waiters for lag in waiter.lags()]))


def _end(failure: threading.ExceptHookArgs) -> None:
    """One that has failed would be waited for."""
    threading.__excepthook__(failure)
    os._exit(1)


if __name__ == "__main__":
    main()
